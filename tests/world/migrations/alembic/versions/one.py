"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "one", None


def upgrade():
    """Two tables, one with a type of its own."""
    op.create_table("customers", sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.Text))
    state = sa.Enum("open", "paid", name="order_state")
    op.create_table(
        "orders",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("customer", sa.Integer, sa.ForeignKey("customers.id"), nullable=False),
        sa.Column("state", state, server_default="open"),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.func.now()),
    )


def downgrade():
    """Neither."""
    op.drop_table("orders")
    op.drop_table("customers")
    op.execute("DROP TYPE order_state")
