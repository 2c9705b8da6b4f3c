"""Try a model: a row by hand or from the table, its prediction, and why."""

import math

from howdah_console.app import Missing
from howdah_console.ask import Fault
from howdah_console.ask import name as identifier
from howdah_console.figures import MOMENTS, NUMBERS, as_moment, class_order
from howdah_console.views.models import find_model

MOST_CATEGORIES = 40
# Steps of a waterfall; the smaller ones are one step.
STEPS = 12


# Types by their names in a model; of enums and domains the schema is not known, and their values are texts or numbers.
KNOWN = {*NUMBERS, *MOMENTS, "time", "interval", "bool", "text", "varchar", "bpchar", "name", "uuid"}


def sql_type(kind, has_words):
    """The type of a model's column as SQL writes it."""
    element = kind.removesuffix("[]")
    if element not in KNOWN:
        element = "text" if has_words else "float8"
    return element + "[]" if kind.endswith("[]") else element


def fields_of(columns):
    """A field of the form for each column that the model takes."""
    fields = []
    for column in columns:
        if column.get("label"):
            continue
        statistics = column.get("statistics") or {}
        statistics = statistics[0] if isinstance(statistics, list) and statistics else statistics or {}
        categories = statistics.get("categories") or {}
        kind = column.get("pg_type") or "text"
        field = {
            "name": column["name"],
            "type": kind,
            "sql": sql_type(kind, bool(categories) or not statistics),
            "choices": None,
            "low": None,
            "high": None,
            "usual": "",
            "slider": None,
        }
        if categories and (kind in ("text", "varchar", "bpchar", "bool") or statistics.get("mean") is None):
            by_size = sorted(categories, key=lambda one: -categories[one]["members"])
            field["usual"] = by_size[0]
            if len(by_size) <= MOST_CATEGORIES:
                field["choices"] = sorted(by_size)
        elif kind == "bool":
            field["choices"] = ["false", "true"]
            field["usual"] = field["choices"][(statistics.get("mean") or 0) >= 0.5]
        elif column.get("size", 1) == 1 or kind in MOMENTS:
            quantiles = [value for value in statistics.get("quantiles") or [] if value is not None]
            middle = quantiles[len(quantiles) // 2] if quantiles else statistics.get("mean")
            field["low"], field["high"] = statistics.get("min"), statistics.get("max")
            field["usual"] = typed(middle, kind)
            field["slider"] = slider_of(field["low"], field["high"], kind)
        fields.append(field)
    return fields


def slider_of(low, high, kind):
    """The ends and the step of a number's slider, in about a hundred round steps; None without one."""
    if kind not in NUMBERS or low is None or high is None or not 0 < high - low < math.inf:
        return None
    step = 10 ** math.floor(math.log10((high - low) / 50))
    step = max(1, step) if kind.startswith("int") else step
    return {
        "step": f"{step:g}",
        "low": f"{math.floor(low / step) * step:.12g}",
        "high": f"{math.ceil(high / step) * step:.12g}",
    }


def typed(value, kind):
    """A number of the statistics as a value of its column's type, for a form."""
    if value is None or not math.isfinite(value):
        return ""
    if kind in ("int2", "int4", "int8"):
        return str(round(value))
    if kind in MOMENTS:
        return as_moment(value, kind)
    if kind in ("float4", "float8", "numeric"):
        return f"{value:.4g}"
    return ""


async def key_of(page, relation):
    """The primary key of a table, as (column, type), if it is one column."""
    answer = await page.ask(
        """
        SELECT a.attname AS name, format_type(a.atttypid, NULL) AS type
        FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = to_regclass($1) AND i.indisprimary AND i.indnatts = 1
        """,
        relation,
    )
    return answer.first


async def prepared(page):
    """The model, the fields of its form, and the key of its table."""
    found, data, _, _ = await find_model(page)
    if data is None:
        return found, None, None, None
    relation = data["relation_name"]
    is_query = relation.lstrip().startswith("(")
    key = None if is_query else await key_of(page, relation)
    return found, fields_of(data["columns"]), key, relation


async def show(page):
    """The form, filled with what is usual."""
    found, fields, key, relation = await prepared(page)
    values = {field["name"]: field["usual"] for field in fields or []}
    given = {"values": values, "given_key": "", "result": None, "loaded": None, "fault": None}
    return page.show("try.html", here="models", model=found, fields=fields, key=key, relation=relation, **given)


async def run(page):
    """The prediction for the form's row; with a key, the row of the table in the form first."""
    found, fields, key, relation = await prepared(page)
    if fields is None:
        raise Missing
    values = {field["name"]: page.form.get("c_" + field["name"], "") for field in fields}
    given_key, loaded, fault = page.form.get("key", "").strip(), None, None
    if page.form.get("load") and key and not given_key:
        fault = Fault(f"Give the {key['name']} of the row.")
    elif page.form.get("load") and key:
        wanted = ", ".join(f"{identifier(field['name'])}::text AS {identifier(field['name'])}" for field in fields)
        loaded = await page.ask(
            f"SELECT {wanted} FROM {relation} WHERE {identifier(key['name'])} = CAST($1::text AS {key['type']})",
            given_key,
        )
        if loaded.first:
            values = {name: "" if value is None else value for name, value in loaded.first.items()}
        elif loaded.fault is None:
            fault = Fault(f"No row of {relation} has {key['name']} = {given_key}.")
    fault = fault or (loaded.fault if loaded else None)
    result = None if fault else await predict(page, found, fields, values)
    if result and result["fault"] and (wrong := await wrong_field(page, fields, values)):
        result["fault"].message = f"{wrong}: {result['fault'].message}"
    template = "try_result.html" if page.is_part and not page.form.get("load") else "try.html"
    given = {"values": values, "given_key": given_key, "result": result, "loaded": loaded, "fault": fault}
    return page.show(template, here="models", model=found, fields=fields, key=key, relation=relation, **given)


async def wrong_field(page, fields, values):
    """The first field whose value is none of its type."""
    for field in fields:
        value = values[field["name"]] or None
        if value and (await page.ask(f"SELECT CAST($1::text AS {field['sql']})", value)).fault:
            return field["name"]
    return None


async def predict(page, model, fields, values):
    """All that a model says of a row."""
    given = [values[field["name"]] if values[field["name"]] != "" else None for field in fields]
    columns = ", ".join(
        f"CAST(${place + 2}::text AS {field['sql']}) AS {identifier(field['name'])}"
        for place, field in enumerate(fields)
    )
    source = f"(SELECT {columns}) AS r"
    task = model["task"]
    result = {"answers": [], "fault": None, "prediction": None, "interval": None, "classes": None, "steps": None}

    async def ask(wanted, more=""):
        answer = await page.ask(f"SELECT {wanted} FROM {source}{more}", model["id"], *given)
        result["answers"].append(answer)
        return answer

    if task == "classification":
        label = await ask("pgml.predict_label($1::bigint, r) AS label")
        if label.fault:
            result["fault"] = label.fault
            return result
        result["prediction"] = label.first["label"]
        probabilities = await ask("pgml.predict_proba($1::bigint, r) AS probabilities")
        names = sorted(model["metrics"].get("classes") or {}, key=class_order)
        if probabilities.first and len(names) == len(probabilities.first["probabilities"]):
            result["classes"] = list(zip(names, probabilities.first["probabilities"], strict=True))
    elif task == "regression":
        answer = await ask("pgml.predict($1::bigint, r) AS number")
        if answer.fault:
            result["fault"] = answer.fault
            return result
        result["prediction"] = answer.first[0]
        interval = await page.ask(
            f"SELECT i.* FROM {source}, pgml.predict_interval($1::bigint, r, coverage => 0.9) AS i", model["id"], *given
        )
        if interval.first:
            result["interval"] = interval.first
            result["answers"].append(interval)
    elif task == "anomaly":
        answer = await ask("pgml.predict($1::bigint, r) AS number")
        if answer.fault:
            result["fault"] = answer.fault
            return result
        result["prediction"] = answer.first[0]
    elif task == "decomposition":
        answer = await ask("pgml.decompose($1::bigint, r) AS components")
        result["fault"] = answer.fault
        result["prediction"] = answer.first["components"] if answer.first else None
        return result
    else:
        answer = await ask("pgml.predict($1::bigint, r) AS cluster")
        result["fault"] = answer.fault
        result["prediction"] = None if answer.fault else int(answer.first["cluster"])
        return result
    explained = await page.ask(
        f"SELECT e.feature, e.value, e.contribution, e.class FROM {source}, pgml.explain($1::bigint, r) AS e",
        model["id"],
        *given,
    )
    result["answers"].append(explained)
    result["explained"] = explained
    result["steps"], result["of"] = steps_of(explained, result["prediction"])
    result["unit"] = unit_of(model, result)
    return result


def unit_of(model, result):
    """What the contributions of a prediction add up to."""
    if model["task"] == "anomaly":
        return "margin (log of the score)" if model["algorithm"] == "isolation_forest" else "score"
    if model["task"] == "regression":
        # With an objective for counts or durations it is the logarithm.
        steps = result["steps"]
        same = steps is None or math.isclose(steps["margin"], result["prediction"], rel_tol=1e-3, abs_tol=1e-6)
        return "prediction" if same else "margin"
    if model["algorithm"] in ("random_forest", "extra_trees", "bagging"):
        return "probability"
    if model["algorithm"] == "ada_boost":
        return "margin (half the log odds)"
    if model["algorithm"] == "naive_bayes" or len(model["metrics"].get("classes") or {}) > 2:
        return "margin (log of the probability, up to a constant)"
    return "margin (log odds)"


def steps_of(explained, prediction):
    """The waterfall from the bias to the margin, of the predicted class if there are several; and that class."""
    classes = list(dict.fromkeys(row["class"] for row in explained.rows))
    if not classes:
        return None, None
    chosen = prediction if prediction in classes else classes[0]
    rows = [row for row in explained.rows if row["class"] == chosen]
    bias = sum(row["contribution"] for row in rows if row["feature"] == "bias" and row["value"] is None)
    parts = [row for row in rows if not (row["feature"] == "bias" and row["value"] is None)]
    parts.sort(key=lambda row: -abs(row["contribution"]))
    shown = [(row["feature"], row["value"], row["contribution"]) for row in parts[:STEPS]]
    rest = parts[STEPS:]
    if rest:
        shown.append((f"{len(rest)} others", None, sum(row["contribution"] for row in rest)))
    steps, at = [], bias
    for feature, value, contribution in shown:
        steps.append(
            {"feature": feature, "value": value, "contribution": contribution, "from": at, "to": at + contribution}
        )
        at += contribution
    return {"bias": bias, "margin": at, "rows": steps}, chosen
