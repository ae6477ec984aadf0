from django.db import migrations, models

_ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", _ID),
                ("email", models.EmailField(max_length=254)),
                ("item", models.CharField(max_length=100)),
                ("total", models.DecimalField(max_digits=10, decimal_places=2)),
                ("packed_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Receipt",
            fields=[
                ("id", _ID),
                ("text", models.TextField()),
                ("order", models.OneToOneField(on_delete=models.CASCADE, to="orders.order")),
            ],
        ),
    ]
