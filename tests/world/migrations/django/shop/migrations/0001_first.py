"""The first release."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models


class Migration(migrations.Migration):
    """Two tables."""

    initial = True
    operations = [
        migrations.CreateModel(
            "Customer",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                ("tags", ArrayField(models.TextField(), default=list)),
                ("since", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            "Order",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("total", models.DecimalField(decimal_places=2, max_digits=12)),
                ("customer", models.ForeignKey(on_delete=models.CASCADE, to="shop.customer")),
            ],
        ),
    ]
