// The shop by pgx: shop URL BASE. Prints what it reads.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func code(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code
	}
	return fmt.Sprint(err)
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func say(name string, on querier, sql string, args ...any) {
	rows, err := on.Query(ctx, sql, args...)
	must(err)
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return fmt.Sprint(values), err
	})
	if err != nil {
		fmt.Println(name, code(err))
		return
	}
	fmt.Println(name, found)
}

func main() {
	base, err := strconv.ParseInt(os.Args[2], 10, 64)
	must(err)
	pool, err := pgxpool.New(ctx, os.Args[1])
	must(err)
	defer pool.Close()
	for id := base; id < base+8; id++ {
		must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO customers (customer_id, name, email) VALUES ($1, $2, $3)", id, fmt.Sprint("name ", id), fmt.Sprint(id)); err != nil {
				return err
			}
			batch := &pgx.Batch{}
			for order := 1; order < 3; order++ {
				batch.Queue("INSERT INTO orders (customer_id, order_id, total) VALUES ($1, $2, $3)", id, order, order*10)
				batch.Queue("INSERT INTO lines VALUES ($1, $2, 1, $3, 5)", id, order, "p")
			}
			return tx.SendBatch(ctx, batch).Close()
		}))
	}
	say("one", pool, "SELECT c.name, o.order_id, l.line FROM customers c JOIN orders o USING (customer_id) JOIN lines l USING (customer_id, order_id) WHERE c.customer_id = $1 ORDER BY 2, 3", base)
	ids := []int64{}
	for id := base; id < base+8; id++ {
		ids = append(ids, id)
		say("each", pool, "SELECT name FROM customers WHERE customer_id = $1", id)
	}
	say("any", pool, "SELECT customer_id FROM customers WHERE customer_id = ANY($1) ORDER BY 1", ids)
	say("any of one", pool, "SELECT order_id FROM orders WHERE customer_id = ANY($1) ORDER BY 1", ids[2:3])
	say("update any", pool, "UPDATE orders SET status = 'seen' WHERE customer_id = ANY($1) RETURNING order_id", ids[2:3])
	say("upsert", pool, "INSERT INTO customers (customer_id, name, email) VALUES ($1, $2, 'e') ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name RETURNING name", base, "again")
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE customers SET balance = 99 WHERE customer_id = $1", base); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO customers (customer_id, name, email) VALUES ($1, 'n', 'e')", base)
		return err
	})
	fmt.Println("duplicate", code(err))
	say("kept", pool, "SELECT balance::text FROM customers WHERE customer_id = $1", base)
	// Transactions within a transaction are savepoints; the first comes before any other statement.
	must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		must(pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, "INSERT INTO orders (customer_id, order_id) VALUES ($1, 50)", base)
			return err
		}))
		err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, "INSERT INTO orders (customer_id, order_id) VALUES ($1, 50)", base)
			return err
		})
		fmt.Println("inner", code(err))
		say("locked", tx, "SELECT order_id FROM orders WHERE customer_id = $1 ORDER BY 1 FOR UPDATE", base)
		return nil
	}))
	batch := &pgx.Batch{}
	for _, id := range ids {
		batch.Queue("SELECT count(*) FROM orders WHERE customer_id = $1", id)
	}
	results := pool.SendBatch(ctx, batch)
	for range ids {
		var count int
		if err := results.QueryRow().Scan(&count); err != nil {
			fmt.Println("batch", code(err))
			break
		}
		fmt.Println("batch", count)
	}
	results.Close()
	say("report", pool, "SELECT status, count(*), sum(total)::text FROM orders WHERE customer_id BETWEEN $1 AND $2 GROUP BY 1 ORDER BY 1", base, base+99)
	must(pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		say("country", tx, "SELECT name FROM countries WHERE code = $1", "th")
		_, err := tx.Exec(ctx, "UPDATE customers SET country = 'th' WHERE customer_id = $1", base+4)
		return err
	}))
	say("unnest", pool, "INSERT INTO lines SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::numeric[]) RETURNING line", []int64{base + 5, base + 5}, []int{1, 1}, []int{8, 9}, []string{"x", "y"}, []int{1, 2})
	say("error", pool, "SELECT 1 / (balance - balance) FROM customers WHERE customer_id = $1", base)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeDescribeExec} {
		say("mode", pool, "SELECT order_id, status FROM orders WHERE customer_id = $1 ORDER BY 1", mode, base+6)
	}
	must(pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		say("snapshot", tx, "SELECT current_setting('transaction_isolation'), count(*) FROM orders WHERE customer_id = $1", base+6)
		return nil
	}))
	say("delete", pool, "DELETE FROM lines WHERE customer_id = $1 AND line = 1 RETURNING order_id", base+7)
}
