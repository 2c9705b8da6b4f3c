# ruff: noqa: D101, D106 (models say what they are by their columns)
"""The shop by the ORM of Django 4.2 with psycopg2, which knows no keys of several columns: python django4_shop.py URL BASE."""

import sys
from decimal import Decimal
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import DatabaseError, IntegrityError, connection, models, transaction
from django.db.models import Count, Exists, F, OuterRef, Sum

# Django would take psycopg 3 if it found it.
sys.modules["psycopg"] = None
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
            "DISABLE_SERVER_SIDE_CURSORS": True,
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
django.setup()


class Customer(models.Model):
    customer_id = models.BigIntegerField(primary_key=True)
    name = models.TextField()
    email = models.TextField()
    country = models.TextField(null=True)
    balance = models.DecimalField(max_digits=12, decimal_places=2, default=0)
    notes = models.JSONField(null=True)

    class Meta:
        app_label, managed, db_table = "shop", False, "customers"


class Order(models.Model):
    order_id = models.IntegerField(primary_key=True)
    customer = models.ForeignKey(Customer, models.DO_NOTHING, related_name="orders")
    total = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    status = models.TextField(default="new")

    class Meta:
        app_label, managed, db_table = "shop", False, "orders"


def main(base):
    """Everything, with what was read."""
    say = print
    say(django.VERSION[:2], connection.Database.__name__)
    for number in range(base, base + 10):
        with transaction.atomic():
            customer = Customer.objects.create(customer_id=number, name=f"name {number}", email=f"{number}@example.org")
            customer.orders.bulk_create(
                Order(customer=customer, order_id=number * 10 + order, total=Decimal(order)) for order in range(3)
            )
    mine = Customer.objects.filter(customer_id__range=(base, base + 99))
    one = Customer.objects.get(pk=base)
    one.balance += 5
    one.notes = {"a": [1, 2]}
    one.save()
    say("saved", Customer.objects.filter(pk=base, notes__a__0=1).values_list("balance", "notes").get())
    say("updated", Customer.objects.filter(pk=base).update(balance=F("balance") * 2))
    say("created", Customer.objects.get_or_create(pk=base + 20, defaults={"name": "g", "email": "g"})[1])
    say("updated or created", Customer.objects.update_or_create(pk=base + 20, defaults={"name": "h"})[1])
    Customer.objects.bulk_create(
        [Customer(customer_id=base + 1, name="again", email="e")],
        update_conflicts=True, unique_fields=["customer_id"], update_fields=["name"],
    )  # fmt: skip
    with transaction.atomic():
        locked = Customer.objects.select_for_update().get(pk=base + 2)
        locked.balance -= 1
        locked.save(update_fields=["balance"])
        locked.orders.filter(status="new").update(status="paid")
    say("orders", list(Order.objects.filter(customer_id=base + 2).order_by("pk").values_list("pk", "total", "status")))
    try:
        with transaction.atomic():
            Customer.objects.filter(pk=base).update(balance=0)
            Customer.objects.create(customer_id=base, name="again", email="x")
    except IntegrityError as error:
        say("error", error.__cause__.pgcode)
    say("kept", Customer.objects.get(pk=base).balance)
    say("in", {key: found.name for key, found in sorted(Customer.objects.in_bulk([base, base + 1, base + 5]).items())})
    say("prefetch", [(c.pk, len(c.orders.all())) for c in mine.order_by("pk").prefetch_related("orders")])
    say("related", [o.customer.name for o in Order.objects.select_related("customer").filter(customer=base + 4)])
    say("report", mine.aggregate(Sum("balance"), Count("pk")))
    by_status = Order.objects.filter(customer_id__gte=base, customer_id__lt=base + 100).values("status")
    say("by status", list(by_status.annotate(n=Count("pk"), s=Sum("total")).order_by("status")))
    large = Order.objects.filter(customer=OuterRef("pk"), total__gt=1)
    say("exists", mine.filter(Exists(large)).count(), Customer.objects.filter(pk=base + 77).exists())
    say("iterator", sum(1 for _ in mine.iterator(chunk_size=3)))
    say("delete", Order.objects.filter(customer_id=base + 7).delete()[0])
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 / (balance - balance) FROM customers WHERE customer_id = %s", [base])
    except DatabaseError as error:
        say("error", error.__cause__.pgcode)
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM customers WHERE customer_id = ANY(%s) ORDER BY 1", [[base + 3, base + 4]])
        say("any", cursor.fetchall())


if __name__ == "__main__":
    main(int(sys.argv[2]))
