package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// listen binds an address, refusing one that others can reach: there is no
// authentication yet.
func listen(ctx context.Context, flag, addr string, insecure bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if !insecure && !loopback(host) {
		return nil, fmt.Errorf("%s %s can be reached by others and there is no authentication yet: "+
			"use a loopback address such as 127.0.0.1, or allow it with --insecure", flag, addr)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return l, nil
}

// loopback says whether only this machine reaches the host. A name other than
// localhost may resolve to anything tomorrow.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// advertise is what Kafka clients are told to connect to: what was asked for,
// with the bound port where it names none, else what was bound.
func advertise(asked string, bound net.Addr) (host string, port int32, err error) {
	boundHost, boundPort, err := net.SplitHostPort(bound.String())
	if err != nil {
		return "", 0, fmt.Errorf("bound address: %w", err)
	}
	host, text := boundHost, boundPort
	if asked != "" {
		if host, text, err = net.SplitHostPort(asked); err != nil {
			host, text = asked, boundPort
			if net.ParseIP(asked) == nil && !plainHost(asked) {
				return "", 0, fmt.Errorf("--advertised-addr: %w", err)
			}
		}
	}
	if net.ParseIP(host) == nil && strings.ContainsFunc(host, notInHostNames) {
		return "", 0, fmt.Errorf("--advertised-addr: %q is not a host: clients are to connect to it, by name or address", host)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return "", 0, fmt.Errorf("clients cannot connect to %q: name the address they use with --advertised-addr", host)
	}
	if text == "0" {
		text = boundPort
	}
	port, err = portOf("--advertised-addr", text)
	return host, port, err
}

// portOf is the number of a port that somebody can connect to.
func portOf(flag, text string) (int32, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s: port %q must be 1 to 65535", flag, text)
	}
	return int32(n), nil
}

// notInHostNames says whether a character occurs in no name of a host. Names with
// others than ASCII are left to the resolvers of clients; a zone (%) is an address's.
func notInHostNames(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune("/:@[]\\\"'`<>,;?#", r)
}

// plainHost says whether a text has nothing of a port in it.
func plainHost(s string) bool {
	for _, r := range s {
		if r == ':' || r == '[' || r == ']' {
			return false
		}
	}
	return s != ""
}

// peerAddr is where other brokers reach the Kafka door: what was asked for, else
// what was bound, and where that is every address, the first of this machine's
// that others may reach; empty if it has none.
func peerAddr(asked string, bound net.Addr, addrs func() ([]net.Addr, error)) (string, error) {
	host, port, err := net.SplitHostPort(bound.String())
	if err != nil {
		return "", fmt.Errorf("bound address: %w", err)
	}
	if asked != "" {
		host, text, err := net.SplitHostPort(asked)
		if err != nil || host == "" {
			return "", fmt.Errorf("--peer-addr %q must be HOST:PORT", asked)
		}
		_, err = portOf("--peer-addr", text)
		return asked, err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		return bound.String(), nil
	}
	all, err := addrs()
	if err != nil {
		return "", fmt.Errorf("addresses of this machine: %w", err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return net.JoinHostPort(n.IP.String(), port), nil
		}
	}
	return "", nil
}
