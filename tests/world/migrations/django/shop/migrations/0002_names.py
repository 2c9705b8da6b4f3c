"""Names become unique: what stands in the tables is changed first."""

from django.db import migrations, models


def fill(apps, editor):
    """Customers, of whom two have one name, and what they bought."""
    customers, orders = apps.get_model("shop", "Customer"), apps.get_model("shop", "Order")
    made = customers.objects.bulk_create(customers(name=f"c{number // 2}") for number in range(500))
    orders.objects.bulk_create(orders(customer=customer, total=customer.id) for customer in made)


def tell_apart(apps, editor):
    """Gives each customer a name of its own, by a cursor that stays open over the changes."""
    for customer in apps.get_model("shop", "Customer").objects.order_by("id").iterator(chunk_size=50):
        customer.name = f"{customer.name}-{customer.id}"
        customer.save(update_fields=["name"])


class Migration(migrations.Migration):
    """Data and structure in one transaction."""

    dependencies = [("shop", "0001_first")]
    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.RunPython(tell_apart, migrations.RunPython.noop),
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.AlterField("customer", "name", models.CharField(max_length=100, unique=True)),
        migrations.AddField("order", "details", models.JSONField(default=dict)),
    ]
