// Package store is the ledger: PostgreSQL through pgx, and nothing else.
package store
