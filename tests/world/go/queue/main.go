// River: queue URL fill COUNT, or queue URL work COUNT.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type Job struct {
	Number int `json:"number"`
}

func (Job) Kind() string { return "job" }

type Worker struct {
	river.WorkerDefaults[Job]
	pool *pgxpool.Pool
}

// A job is done in the transaction in which it is noted.
func (worker *Worker) Work(ctx context.Context, job *river.Job[Job]) error {
	tx, err := worker.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err = tx.Exec(ctx, "INSERT INTO done VALUES ($1)", job.Args.Number); err != nil {
		return err
	}
	if _, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func try(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pool, err := pgxpool.New(ctx, os.Args[1])
	try(err)
	defer pool.Close()
	count, err := strconv.Atoi(os.Args[3])
	try(err)
	driver := riverpgxv5.New(pool)
	if os.Args[2] == "fill" {
		migrator, err := rivermigrate.New(driver, nil)
		try(err)
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		try(err)
		client, err := river.NewClient(driver, &river.Config{})
		try(err)
		for number := 0; number < count; number++ {
			if number%2 == 0 {
				_, err = client.Insert(ctx, Job{number}, nil)
			} else {
				err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					_, err := client.InsertTx(ctx, tx, Job{number}, nil)
					return err
				})
			}
			try(err)
		}
		return
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &Worker{pool: pool})
	client, err := river.NewClient(driver, &river.Config{
		FetchPollInterval: 200 * time.Millisecond,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 5}},
		Workers:           workers,
	})
	try(err)
	try(client.Start(ctx))
	for done := 0; done < count; time.Sleep(50 * time.Millisecond) {
		try(pool.QueryRow(ctx, "SELECT count(DISTINCT number) FROM done").Scan(&done))
	}
	try(client.Stop(ctx))
}
