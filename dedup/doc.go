// Package dedup is the engine's memory of ids: it narrows the search for duplicates and never calls anything a duplicate by itself.
package dedup
