"""What a shop has."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models


class Customer(models.Model):
    """A customer."""

    name = models.CharField(max_length=100, unique=True)
    tags = ArrayField(models.TextField(), default=list)
    since = models.DateTimeField(auto_now_add=True)

    class Meta:
        """An index that only PostgreSQL has, made while the table is in use."""

        indexes = [GinIndex(fields=["tags"], name="customer_tags")]


class Order(models.Model):
    """An order."""

    customer = models.ForeignKey(Customer, on_delete=models.CASCADE)
    total = models.DecimalField(max_digits=12, decimal_places=2)
    details = models.JSONField(default=dict)

    class Meta:
        """What no order may be."""

        constraints = [models.CheckConstraint(condition=models.Q(total__gte=0), name="order_total_not_negative")]
