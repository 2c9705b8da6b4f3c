"""Alembic's environment, as its template has it."""

import os

import sqlalchemy
from alembic import context

engine = sqlalchemy.create_engine(os.environ["DATABASE_URL"].replace("postgres://", "postgresql+psycopg://"))
with engine.connect() as connection:
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
