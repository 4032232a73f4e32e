package localpg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	connectTimeout = 2 * time.Second
	progressEvery  = time.Second
)

// answer is what one attempt to connect learned.
type answer int

const (
	silent     answer = iota // nobody answers
	recovering               // it answers: not yet
	ready
)

// waitReady returns when the database takes connections. Silence is bounded by
// StartTimeout; recovery is not, and is reported once a second.
func (s *Server) waitReady(ctx context.Context, p *process) error {
	began := time.Now()
	heard := began
	progress := time.NewTicker(progressEvery)
	defer progress.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		a, err := s.tryConnect(ctx)
		switch a {
		case ready:
			return nil
		case recovering:
			heard = time.Now()
		case silent:
			if time.Since(heard) > s.cfg.StartTimeout {
				return fmt.Errorf("no answer from the server for %s: %w", s.cfg.StartTimeout, err)
			}
		}
		select {
		case <-p.exited:
			if said := s.complaint(); said != "" && !p.adopted {
				return fmt.Errorf("%w: %s", p.exitErr(), said)
			}
			return p.exitErr()
		case <-ctx.Done():
			return ctx.Err()
		case <-progress.C:
			s.cfg.Log.InfoContext(ctx, "database is starting", "elapsed", time.Since(began).Round(time.Second),
				"doing", recoveryTitle(s.pgDir), "answer", err)
		case <-poll.C:
		}
	}
}

// tryConnect opens a connection to our database, making the database on the way
// when the cluster is new.
func (s *Server) tryConnect(ctx context.Context) (answer, error) {
	a, err := s.tryDatabase(ctx, databaseName, "SELECT pg_is_in_recovery()")
	if code(err) != "3D000" { // invalid_catalog_name
		return a, err
	}
	if a, err = s.tryDatabase(ctx, "postgres", "SELECT pg_is_in_recovery()"); a != ready {
		return a, err
	}
	// Not in recovery, so this is the first start. A name in a statement cannot
	// be a parameter; it is a constant of ours.
	if _, err = s.tryDatabase(ctx, "postgres", "CREATE DATABASE "+databaseName); err != nil && code(err) != "42P04" {
		return silent, err
	}
	return s.tryDatabase(ctx, databaseName, "SELECT pg_is_in_recovery()")
}

func (s *Server) tryDatabase(ctx context.Context, database, sql string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	cfg, err := pgx.ParseConfig(s.URL())
	if err != nil {
		return silent, err
	}
	cfg.Database = database
	cfg.ConnectTimeout = connectTimeout
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		if code(err) == "57P03" { // cannot_connect_now
			return recovering, err
		}
		return silent, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return silent, err
	}
	defer rows.Close()
	inRecovery := false
	for rows.Next() {
		if err := rows.Scan(&inRecovery); err != nil {
			return silent, err
		}
	}
	if err := rows.Err(); err != nil {
		return silent, err
	}
	if inRecovery {
		return recovering, errors.New("the database is in recovery")
	}
	return ready, nil
}

func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
