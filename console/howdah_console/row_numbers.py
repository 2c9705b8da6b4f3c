"""Which columns number the rows, as pandas and R write it in front of each row: they tell in which order rows were."""


def are_row_numbers(values, rows=None):
    """Whether some whole numbers of a table number its rows: each is another one, and their range is hardly larger than
    `rows`, the table's number of rows as far as it is known.
    """
    if len(values) < 2 or len(set(values)) < len(values):
        return False
    return max(values) - min(values) < max(1.1 * (rows or 0), len(values))
