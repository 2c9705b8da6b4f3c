import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.configuration.ClassicConfiguration;
import java.util.Map;

/** Flyway's migrations: java Migrate.java URL USER PASSWORD FOLDER, with either way of its lock. */
class Migrate {
    public static void main(String[] given) {
        for (String locks : new String[] {"true", "false"}) {
            Flyway flyway = Flyway.configure()
                .dataSource(given[0], given[1], given[2])
                .locations("filesystem:" + given[3])
                .cleanDisabled(false)
                // Its own name: it would hold more than one schema otherwise.
                .schemas("public", "shop")
                .createSchemas(false)
                .configuration(Map.of("flyway.postgresql.transactional.lock", locks))
                // An index that is made while the table is in use waits for ever for a lock in a transaction.
                .target(locks.equals("true") ? "1" : "latest")
                .load();
            flyway.migrate();
            flyway.validate();
        }
        System.out.println("migrated");
    }
}
