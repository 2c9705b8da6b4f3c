# ruff: noqa: D101, D106 (models say what they are by their columns)
"""The shop by Django's ORM: python django_shop.py URL BASE [bound]."""

import contextlib
import sys
import uuid
from decimal import Decimal
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import DatabaseError, IntegrityError, connection, models, transaction
from django.db.models import Count, Exists, F, Max, OuterRef, Sum

url = urlsplit(sys.argv[1])
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.path[1:],
            "USER": url.username,
            "PASSWORD": url.password,
            "HOST": url.hostname,
            "PORT": url.port,
            # As Django's manual says for a pooler of transactions.
            "DISABLE_SERVER_SIDE_CURSORS": True,
            "OPTIONS": {"server_side_binding": "bound" in sys.argv},
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()


class Country(models.Model):
    code = models.TextField(primary_key=True)
    name = models.TextField()

    class Meta:
        app_label, managed, db_table = "shop", False, "countries"


class Customer(models.Model):
    customer_id = models.BigIntegerField(primary_key=True)
    name = models.TextField()
    email = models.TextField()
    country = models.ForeignKey(Country, models.DO_NOTHING, db_column="country", null=True)
    balance = models.DecimalField(max_digits=12, decimal_places=2, default=0)
    notes = models.JSONField(null=True)

    class Meta:
        app_label, managed, db_table = "shop", False, "customers"


class Order(models.Model):
    pk = models.CompositePrimaryKey("customer_id", "order_id")
    customer = models.ForeignKey(Customer, models.DO_NOTHING, related_name="orders")
    order_id = models.IntegerField()
    total = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    status = models.TextField(default="new")

    class Meta:
        app_label, managed, db_table = "shop", False, "orders"


class Line(models.Model):
    pk = models.CompositePrimaryKey("customer_id", "order_id", "line")
    customer_id = models.BigIntegerField()
    order_id = models.IntegerField()
    line = models.IntegerField()
    product = models.TextField()
    price = models.DecimalField(max_digits=10, decimal_places=2)

    class Meta:
        app_label, managed, db_table = "shop", False, "lines"


class Visit(models.Model):
    visit = models.UUIDField(primary_key=True)
    page = models.TextField()

    class Meta:
        app_label, managed, db_table = "shop", False, "visits"


def fill(base):
    """Customers with their orders, each in a transaction of its own."""
    for number in range(base, base + 10):
        with transaction.atomic():
            customer = Customer.objects.create(
                customer_id=number, name=f"name {number}", email=f"{number}@example.org", country_id="de"
            )
            for order in range(1, 4):
                made = Order.objects.create(customer=customer, order_id=order, total=Decimal(order))
                Line.objects.bulk_create(
                    Line(customer_id=number, order_id=made.order_id, line=line, product=f"p{line}", price=line)
                    for line in (1, 2)
                )


def main(base):
    """Everything, with what was read."""
    say = print
    fill(base)
    mine = Customer.objects.filter(customer_id__range=(base, base + 99))
    one = Customer.objects.get(pk=base)
    say("get", one.name, one.balance, one.country.name)
    one.balance += 5
    one.notes = {"a": [1, 2]}
    one.save()
    say("saved", Customer.objects.values_list("balance", "notes").get(pk=base))
    Customer(customer_id=base + 20, name="new", email="n").save()
    say("update", Customer.objects.filter(pk=base).update(balance=F("balance") * 2))
    for _ in range(2):
        say(
            "get_or_create",
            Customer.objects.get_or_create(customer_id=base + 21, defaults={"name": "g", "email": "g"})[1],
        )
        say(
            "update_or_create",
            Customer.objects.update_or_create(customer_id=base + 22, defaults={"name": "u", "email": "u"})[1],
        )
    Customer.objects.bulk_create(
        [Customer(customer_id=base + 1, name="met", email="met")],
        update_conflicts=True, unique_fields=["customer_id"], update_fields=["name", "email"],
    )  # fmt: skip
    Customer.objects.bulk_create([Customer(customer_id=base + 1, name="no", email="no")], ignore_conflicts=True)
    say("upserted", Customer.objects.get(pk=base + 1).name)
    with transaction.atomic():
        locked = Customer.objects.select_for_update().get(pk=base + 2)
        locked.balance -= 1
        locked.save(update_fields=["balance"])
        Order.objects.filter(customer_id=base + 2, status="new").update(status="paid")
    say(
        "locked", list(Order.objects.filter(customer_id=base + 2).order_by("order_id").values_list("status", flat=True))
    )
    # Savepoints first in a transaction, and one that is rolled back.
    with transaction.atomic():
        with transaction.atomic():
            Customer.objects.create(customer_id=base + 30, name="nested", email="x")
        with contextlib.suppress(IntegrityError), transaction.atomic():
            Customer.objects.create(customer_id=base + 30, name="again", email="x")
        Customer.objects.filter(pk=base + 30).update(name="nested more")
    say("nested", Customer.objects.get(pk=base + 30).name)
    with transaction.atomic():
        say(
            "in a transaction",
            Customer.objects.get_or_create(customer_id=base + 31, defaults={"name": "g", "email": "g"})[1],
        )
        say(
            "in a transaction",
            Customer.objects.update_or_create(customer_id=base + 31, defaults={"name": "h", "email": "g"})[1],
        )
    with transaction.atomic():
        with contextlib.suppress(KeyError), transaction.atomic():
            raise KeyError
        Customer.objects.filter(pk=base + 31).update(name="after one that was given up")
    try:
        with transaction.atomic():
            Customer.objects.filter(pk=base).update(balance=0)
            Customer.objects.create(customer_id=base, name="again", email="x")
    except IntegrityError as error:
        say("error", type(error).__name__, error.__cause__.sqlstate)
    say("kept", Customer.objects.get(pk=base).balance)
    try:
        Line.objects.create(customer_id=base, order_id=99, line=1, product="p", price=1)
    except IntegrityError as error:
        say("error", error.__cause__.sqlstate)
    say("in", sorted(Customer.objects.in_bulk([base, base + 3, base + 5])))
    say("prefetch", [(c.pk, len(c.orders.all())) for c in mine.order_by("pk").prefetch_related("orders")])
    say(
        "related",
        [
            o.customer.name
            for o in Order.objects.select_related("customer").filter(customer_id=base + 4).order_by("order_id")
        ],
    )
    say("join", Order.objects.filter(customer__name=f"name {base + 4}", customer_id=base + 4).count())
    say("report", mine.aggregate(Sum("balance"), Count("pk"), Max("customer_id")))
    say(
        "by status",
        list(
            Order.objects.filter(customer_id__gte=base, customer_id__lt=base + 100)
            .values("status")
            .annotate(n=Count("order_id"), s=Sum("total"))
            .order_by("status")
        ),
    )
    say(
        "annotated",
        list(
            Order.objects.filter(customer_id=base + 5)
            .values("customer__name")
            .annotate(n=Count("order_id"), s=Sum("total"))
        ),
    )
    large = Order.objects.filter(customer=OuterRef("pk"), total__gt=2)
    say("exists", mine.filter(Exists(large)).count(), Customer.objects.filter(pk=base + 77).exists())
    say("iterator", sum(1 for _ in mine.iterator(chunk_size=3)))
    say("page", list(mine.order_by("-pk").values_list("pk", flat=True)[2:5]))
    visits = [Visit(visit=uuid.UUID(int=base * 1000 + i), page=f"page {i}") for i in range(5)]
    for visit in visits:
        visit.save()
    say(
        "uuid",
        [Visit.objects.get(pk=visit.pk).page for visit in visits],
        Visit.objects.filter(pk__in=[v.pk for v in visits]).count(),
    )
    with transaction.atomic():
        order = Order.objects.get(pk=(base + 6, 1))
        order.total = Line.objects.filter(customer_id=base + 6, order_id=1).aggregate(s=Sum("price"))["s"]
        order.save()
        say("countries", Country.objects.count())
    say("total", Order.objects.get(pk=(base + 6, 1)).total)
    say(
        "delete",
        Line.objects.filter(customer_id=base + 7).delete()[0],
        Order.objects.filter(customer_id=base + 7).delete()[0],
    )
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 / (balance - balance) FROM customers WHERE customer_id = %s", [base])
    except DatabaseError as error:
        say("error", error.__cause__.sqlstate)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.name, sum(l.price) FROM customers c JOIN lines l USING (customer_id) WHERE customer_id = %s GROUP BY 1",
            [base + 8],
        )
        say("raw", cursor.fetchall())
        cursor.execute(
            "SELECT customer_id, name FROM customers WHERE customer_id = ANY(%s) ORDER BY 1",
            [[base, base + 1, base + 2]],
        )
        say("any", cursor.fetchall())


if __name__ == "__main__":
    main(int(sys.argv[2]))
