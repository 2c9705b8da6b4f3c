// golang-migrate, up, down and up again: migrate URL FOLDER.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	_ "github.com/golang-migrate/migrate/v4/source/file"
)

func try(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	url := strings.Replace(os.Args[1], "postgres://", "pgx5://", 1)
	for _, way := range []func(*migrate.Migrate) error{(*migrate.Migrate).Up, (*migrate.Migrate).Down, (*migrate.Migrate).Up} {
		migrator, err := migrate.New("file://"+os.Args[2], url)
		try(err)
		try(way(migrator))
		source, database := migrator.Close()
		try(source)
		try(database)
	}
	fmt.Println("migrated")
}
