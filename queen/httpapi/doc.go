// Package httpapi is the native HTTP door: JSON in, engine calls, JSON out.
package httpapi
