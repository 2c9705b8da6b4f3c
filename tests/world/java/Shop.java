import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** The shop by pgjdbc: java Shop.java URL USER PASSWORD BASE. Prints what it reads. */
class Shop {
    static Connection connection;

    static PreparedStatement prepared(String sql, Object... values) throws SQLException {
        PreparedStatement statement = connection.prepareStatement(sql);
        for (int place = 0; place < values.length; place++) statement.setObject(place + 1, values[place]);
        return statement;
    }

    static void say(String name, String sql, Object... values) throws SQLException {
        List<String> rows = new ArrayList<>();
        try (PreparedStatement statement = prepared(sql, values); ResultSet found = statement.executeQuery()) {
            while (found.next()) {
                StringBuilder row = new StringBuilder();
                for (int column = 1; column <= found.getMetaData().getColumnCount(); column++) row.append(found.getString(column)).append(' ');
                rows.add(row.toString());
            }
        }
        System.out.println(name + " " + rows);
    }

    static int change(String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = prepared(sql, values)) {
            return statement.executeUpdate();
        }
    }

    public static void main(String[] given) throws Exception {
        connection = DriverManager.getConnection(given[0], given[1], given[2]);
        long base = Long.parseLong(given[3]);
        connection.setAutoCommit(false);
        for (long id = base; id < base + 8; id++) {
            change("INSERT INTO customers (customer_id, name, email) VALUES (?, ?, ?)", id, "name " + id, "" + id);
            try (PreparedStatement batch = connection.prepareStatement("INSERT INTO orders (customer_id, order_id, total) VALUES (?, ?, ?)")) {
                for (int order = 1; order < 4; order++) {
                    batch.setLong(1, id);
                    batch.setInt(2, order);
                    batch.setInt(3, order * 10);
                    batch.addBatch();
                }
                batch.executeBatch();
            }
            connection.commit();
        }
        for (int time = 0; time < 8; time++) {
            say("each", "SELECT name FROM customers WHERE customer_id = ?", base + time);
            connection.commit();
        }
        connection.commit();
        connection.setAutoCommit(true);
        for (int time = 0; time < 8; time++) say("each", "SELECT count(*) FROM orders WHERE customer_id = ?", base + time);
        say("join", "SELECT name, order_id FROM customers JOIN orders USING (customer_id) WHERE customer_id = ? ORDER BY 2", base);
        say("in", "SELECT customer_id FROM customers WHERE customer_id IN (?, ?, ?) ORDER BY 1", base, base + 1, base + 2);
        say("any", "SELECT customer_id FROM customers WHERE customer_id = ANY (?) ORDER BY 1", connection.createArrayOf("bigint", new Long[] {base, base + 3}));
        System.out.println("any of one " + change("UPDATE orders SET status = 'seen' WHERE customer_id = ANY (?)", connection.createArrayOf("bigint", new Long[] {base})));
        say("upsert", "INSERT INTO customers (customer_id, name, email) VALUES (?, ?, 'e') ON CONFLICT (customer_id) DO UPDATE SET name = excluded.name RETURNING name", base, "again");
        connection.setAutoCommit(false);
        try {
            change("UPDATE customers SET balance = 99 WHERE customer_id = ?", base);
            change("INSERT INTO customers (customer_id, name, email) VALUES (?, 'n', 'e')", base);
        } catch (SQLException error) {
            System.out.println("duplicate " + error.getSQLState());
            connection.rollback();
        }
        say("kept", "SELECT balance FROM customers WHERE customer_id = ?", base);
        connection.commit();
        for (int time = 0; time < 7; time++) {
            Savepoint savepoint = connection.setSavepoint();
            change("INSERT INTO orders (customer_id, order_id) VALUES (?, ?)", base, 50 + time);
            connection.rollback(savepoint);
            change("INSERT INTO orders (customer_id, order_id) VALUES (?, ?)", base, 60 + time);
            connection.releaseSavepoint(savepoint);
            connection.commit();
        }
        say("locked", "SELECT order_id FROM orders WHERE customer_id = ? ORDER BY 1 FOR UPDATE", base);
        connection.commit();
        say("country", "SELECT name FROM countries WHERE code = ?", "th");
        change("UPDATE customers SET country = 'th' WHERE customer_id = ?", base + 4);
        connection.commit();
        // By a cursor: few rows at a time.
        try (PreparedStatement statement = prepared("SELECT order_id FROM orders WHERE customer_id = ? ORDER BY 1", base)) {
            statement.setFetchSize(2);
            int count = 0;
            try (ResultSet found = statement.executeQuery()) {
                while (found.next()) count += found.getInt(1);
            }
            System.out.println("cursor " + count);
        }
        connection.commit();
        connection.setAutoCommit(true);
        say("report", "SELECT status, count(*), sum(total) FROM orders WHERE customer_id BETWEEN ? AND ? GROUP BY 1 ORDER BY 1", base, base + 99);
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO lines (customer_id, order_id, line, product, price) VALUES (?, 1, ?, 'p', 1)", Statement.RETURN_GENERATED_KEYS)) {
            statement.setLong(1, base + 5);
            statement.setInt(2, 1);
            statement.executeUpdate();
            try (ResultSet keys = statement.getGeneratedKeys()) {
                keys.next();
                System.out.println("keys " + keys.getLong("customer_id"));
            }
        }
        try {
            say("error", "SELECT 1 / (balance - balance) FROM customers WHERE customer_id = ?", base);
        } catch (SQLException error) {
            System.out.println("error " + error.getSQLState());
        }
        System.out.println("delete " + change("DELETE FROM orders WHERE customer_id = ?", base + 7));
        connection.close();
    }
}
