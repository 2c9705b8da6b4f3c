"""Rows, a new value of the type, an index made while the table is in use."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "two", "one"


def upgrade():
    """In a transaction, outside of one, and in one again."""
    customers = sa.table("customers", sa.column("id", sa.Integer), sa.column("name", sa.Text))
    op.bulk_insert(customers, [{"id": number, "name": f"c{number}"} for number in range(300)])
    with op.get_context().autocommit_block():
        op.execute("ALTER TYPE order_state ADD VALUE IF NOT EXISTS 'sent'")
        op.create_index("customers_name", "customers", ["name"], postgresql_concurrently=True)
    op.execute("INSERT INTO orders (customer, state) SELECT id, 'sent' FROM customers WHERE id % 2 = 0")
    op.alter_column("customers", "name", nullable=False)


def downgrade():
    """The value stays: PostgreSQL takes none away."""
    op.execute("DELETE FROM orders")
    op.execute("DELETE FROM customers")
    with op.get_context().autocommit_block():
        op.drop_index("customers_name", postgresql_concurrently=True)
    op.alter_column("customers", "name", nullable=True)
