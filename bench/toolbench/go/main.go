// One of Go's drivers in a process of its own, told what to do by lines of JSON, as bench/toolbench/client.py is.
//
//	toolbench pgx|pq URL CONNECTIONS
//
// pgx is used by its own interface, which keeps prepared statements by itself, and gives every value by Rows.Values;
// lib/pq through database/sql, with a statement prepared once a connection, and every value scanned into an any.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/lib/pq"
)

// connection runs the query that was given to open, and counts its rows.
type connection interface {
	open(query string) error
	run() (int, error)
}

type pgxConnection struct {
	conn  *pgx.Conn
	query string
}

func (c *pgxConnection) open(query string) error {
	c.query = query
	return nil
}

func (c *pgxConnection) run() (int, error) {
	rows, err := c.conn.Query(context.Background(), c.query)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	count := 0
	for rows.Next() {
		if _, err := rows.Values(); err != nil {
			return 0, err
		}
		count++
	}
	return count, rows.Err()
}

type pqConnection struct {
	conn      *sql.Conn
	statement *sql.Stmt
}

func (c *pqConnection) open(query string) error {
	if c.statement != nil {
		if err := c.statement.Close(); err != nil {
			return err
		}
	}
	statement, err := c.conn.PrepareContext(context.Background(), query)
	c.statement = statement
	return err
}

func (c *pqConnection) run() (int, error) {
	rows, err := c.statement.Query()
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	values := make([]any, len(columns))
	places := make([]any, len(columns))
	for i := range values {
		places[i] = &values[i]
	}
	count := 0
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return 0, err
		}
		count++
	}
	return count, rows.Err()
}

func connect(driver, url string, count int) ([]connection, error) {
	made := make([]connection, count)
	if driver == "pgx" {
		for i := range made {
			conn, err := pgx.Connect(context.Background(), url)
			if err != nil {
				return nil, err
			}
			made[i] = &pgxConnection{conn: conn}
		}
		return made, nil
	}
	pool, err := sql.Open("postgres", url)
	if err != nil {
		return nil, err
	}
	for i := range made {
		conn, err := pool.Conn(context.Background())
		if err != nil {
			return nil, err
		}
		made[i] = &pqConnection{conn: conn}
	}
	return made, nil
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func measure(connections []connection, seconds float64) (map[string]float64, error) {
	used, start := cpu(), time.Now()
	end := start.Add(time.Duration(seconds * float64(time.Second)))
	latencies := make([][]time.Duration, len(connections))
	rows := make([]int, len(connections))
	failures := make([]error, len(connections))
	var all sync.WaitGroup
	for i, each := range connections {
		all.Add(1)
		go func() {
			defer all.Done()
			for before := time.Now(); before.Before(end); {
				count, err := each.run()
				if err != nil {
					failures[i] = err
					return
				}
				now := time.Now()
				latencies[i] = append(latencies[i], now.Sub(before))
				rows[i] += count
				before = now
			}
		}()
	}
	all.Wait()
	wall := time.Since(start)
	used = cpu() - used
	total := 0
	var sum time.Duration
	var sorted []time.Duration
	for i := range connections {
		if failures[i] != nil {
			return nil, failures[i]
		}
		total += rows[i]
		sorted = append(sorted, latencies[i]...)
	}
	slices.Sort(sorted)
	for _, each := range sorted {
		sum += each
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	at := func(part float64) float64 { return ms(sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]) }
	return map[string]float64{
		"queries": float64(len(sorted)) / wall.Seconds(),
		"rows":    float64(total) / wall.Seconds(),
		"cpu":     float64(used) / float64(time.Microsecond) / float64(total),
		"mean":    ms(sum) / float64(len(sorted)),
		"p50":     at(0.5),
		"p99":     at(0.99),
	}, nil
}

func serve(driver, url string, count int) error {
	connections, err := connect(driver, url, count)
	if err != nil {
		return err
	}
	answers := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var command struct {
			Open *struct{ Query string }
			Run  float64
		}
		if err := json.Unmarshal(lines.Bytes(), &command); err != nil {
			return err
		}
		answer := map[string]float64{}
		if command.Open != nil {
			for _, each := range connections {
				if err := each.open(command.Open.Query); err != nil {
					return err
				}
			}
			count, err := connections[0].run()
			if err != nil {
				return err
			}
			answer["rows"] = float64(count)
		} else if answer, err = measure(connections, command.Run); err != nil {
			return err
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "toolbench pgx|pq URL CONNECTIONS")
		os.Exit(2)
	}
	count, err := strconv.Atoi(os.Args[3])
	if err == nil {
		err = serve(os.Args[1], os.Args[2], count)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
