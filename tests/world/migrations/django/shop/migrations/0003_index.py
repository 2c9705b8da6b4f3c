"""An index that is made while the table is in use."""

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models


class Migration(migrations.Migration):
    """Outside of a transaction."""

    atomic = False
    dependencies = [("shop", "0002_names")]
    not_negative = models.CheckConstraint(condition=models.Q(total__gte=0), name="order_total_not_negative")
    operations = [
        migrations.RunSQL("VACUUM ANALYZE shop_customer", migrations.RunSQL.noop),
        AddIndexConcurrently("customer", GinIndex(fields=["tags"], name="customer_tags")),
        AddConstraintNotValid("order", not_negative),
        ValidateConstraint("order", "order_total_not_negative"),
    ]
