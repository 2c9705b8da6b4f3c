"""Texts in SQL: vectors and scores by transformers with the numbers of sentence-transformers, chunks with LangChain's, and the
ordinary work with them: tables, parallel queries, standbys, dumps, privileges, and files that are not what they should be.

`texts/expected.json` has what the libraries gave (`made by` says which) for its texts.
"""

import contextlib
import json
import math
import random
import re
import shutil
import tempfile
import threading
from pathlib import Path

import numpy
import pytest

from devkit import Problem
from devkit.setup import minilm
from tests import transformers

EXPECTED = json.loads((Path(__file__).parent / "texts" / "expected.json").read_text())
# Pages of documentation, paragraph by paragraph.
PARAGRAPHS = [
    paragraph
    for page in sorted((Path(__file__).parent.parent / "docs" / "guide").glob("*.md"))
    for paragraph in page.read_text().split("\n\n")
    if len(paragraph) > 60 and not paragraph.startswith(("```", "|"))
]


@pytest.fixture(scope="module")
def folder():
    """A folder for transformers that the server's account can read, which it cannot below those of pytest."""
    with tempfile.TemporaryDirectory(prefix="howdah-transformers-", dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture(scope="module")
def tiny(folder):
    """The path of a tiny encoder."""
    return transformers.write(folder / "tiny")


@pytest.fixture
def loaded(database, tiny):
    """A database with the encoder as project `tiny`."""
    load(database, "tiny", tiny)
    return database


def load(database, project, path):
    return database.sql(f"SELECT project, task, algorithm, deployed FROM pgml.load_transformer('{project}', '{path}')")


def ask(database, query, *arguments):
    """The rows of a query with parameters."""
    with database.connect() as own:
        cursor = own.cursor()
        cursor.execute(query, arguments)
        return cursor.fetchall()


def apart(one, other):
    return float(numpy.abs(numpy.array(one) - numpy.array(other)).max())


def test_embeddings_are_those_of_sentence_transformers(database):
    assert load(database, "minilm", minilm()) == "minilm|embedding|transformers|t"
    texts = [case["text"] for case in EXPECTED["minilm"]]
    together = [row[0] for row in ask(database, "SELECT pgml.embed('minilm', %s::text[])", texts)]
    for case, vector in zip(EXPECTED["minilm"], together, strict=True):
        assert apart(vector[::8], case["every 8th"]) < 1e-5, case["text"]
        assert len(vector) == 384 and abs(math.hypot(*vector) - 1) < 1e-5
        # Alone it is the same to the last bit.
        assert ask(database, "SELECT pgml.embed('minilm', %s)", case["text"])[0][0] == vector


def test_the_nearest_paragraph_answers_a_question(database):
    load(database, "minilm", minilm())
    rows = ask(
        database,
        """WITH docs AS MATERIALIZED (
               SELECT body, pgml.embed('minilm', body) AS embedding FROM unnest(%s::text[]) body),
           question AS MATERIALIZED (SELECT pgml.embed('minilm', 'Which animal barks?') AS q)
           SELECT body FROM docs, question ORDER BY pgml.cosine_similarity(embedding, q) DESC""",
        [
            "Stocks fell on Monday.",
            "A dog is man's best friend.",
            "Paris is in France.",
            "Rust has no garbage collector.",
        ],
    )
    assert rows[0][0] == "A dog is man's best friend."


def test_a_folder_of_transformers_alone_is_pooled_by_the_mean(loaded):
    for case in EXPECTED["tiny"]:
        (vector,) = ask(loaded, "SELECT pgml.embed('tiny', %s)", case["text"])[0]
        assert apart(vector[::4], case["vector"]) < 1e-5, case["text"]


def test_a_model_of_xlm_roberta_has_sentencepieces_tokens(database, folder):
    load(database, "xlm", transformers.write(folder / "xlm", xlm=True))
    for case in EXPECTED["xlm"]:
        (vector,) = ask(database, "SELECT pgml.embed('xlm', %s)", case["text"])[0]
        assert apart(vector[::4], case["vector"]) < 1e-5, case["text"]
    load(database, "ranker", transformers.write(folder / "xlm_ranker", xlm=True, scores=True))
    ranked = ask(
        database, "SELECT * FROM pgml.rank('ranker', %s, %s::text[])", EXPECTED["query"], EXPECTED["documents"]
    )
    assert apart([row[1] for row in sorted(ranked)], EXPECTED["xlm scores"]) < 1e-5


def test_weights_of_half_precision_are_read(database, folder, tiny):
    load(database, "tiny", tiny)
    load(database, "half", transformers.write(folder / "half", kind=numpy.float16))
    query = "SELECT pgml.embed('{}', 'the cat sat on the mat')"
    one, other = (ask(database, query.format(name))[0][0] for name in ("tiny", "half"))
    assert 0 < apart(one, other) < 0.02


@pytest.mark.parametrize("which", ["sigmoid", "identity"])
def test_scores_are_those_of_a_cross_encoder(database, folder, which):
    changes = (
        {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"} if which == "identity" else {}
    )
    path = transformers.write(folder / which, scores=True, **changes)
    assert load(database, "ranker", path) == "ranker|text_pair_classification|transformers|t"
    query, documents = EXPECTED["query"], EXPECTED["documents"]
    ranked = ask(database, "SELECT * FROM pgml.rank('ranker', %s, %s::text[])", query, documents)
    expected = EXPECTED[which]
    assert [row[0] for row in ranked] == sorted(range(len(expected)), key=lambda index: -expected[index])
    assert apart([row[1] for row in ranked], sorted(expected, reverse=True)) < 1e-5
    assert {row[2] for row in ranked} == {None}
    best = ask(
        database,
        """SELECT * FROM pgml.rank('ranker', %s, %s::text[], '{"top_k": 2, "return_documents": true}')""",
        query,
        documents,
    )
    assert [row[:2] for row in best] == [row[:2] for row in ranked[:2]]
    assert [row[2] for row in best] == [documents[row[0]] for row in best]


@pytest.mark.parametrize("case", EXPECTED["chunks"], ids=lambda case: json.dumps(case["kwargs"]))
def test_chunks_are_those_of_langchain(database, case):
    rows = ask(
        database,
        "SELECT * FROM pgml.chunk(%s, %s, %s::jsonb)",
        case["splitter"],
        EXPECTED["long"],
        json.dumps(case["kwargs"]),
    )
    assert [row[1] for row in rows] == case["chunks"]
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))


def test_what_kwargs_ask_for(loaded):
    (plain,) = ask(loaded, "SELECT pgml.embed('tiny', 'query: the cat')")[0]
    for kwargs, expected in [
        ({"prompt": "query: "}, plain),
        ({"prompt": "query: ", "device": "cpu", "batch_size": 8}, plain),
        ({"prompt": "query: ", "truncate_dim": 5}, plain[:5]),
        ({"prompt": "query: ", "normalize_embeddings": True}, [value / math.hypot(*plain) for value in plain]),
    ]:
        (found,) = ask(loaded, "SELECT pgml.embed('tiny', 'the cat', %s::jsonb)", json.dumps(kwargs))[0]
        assert len(found) == len(expected) and apart(found, expected) < 1e-6, kwargs
    for kwargs, message in [
        ('{"promt": "x"}', 'kwargs has no key "promt"'),
        ('{"prompt": 7}', "prompt in kwargs must be a text, not 7"),
        ('{"prompt_name": "query"}', 'the model has no prompt "query"'),
        ('{"truncate_dim": 0}', "truncate_dim must be from 1 to 36"),
        ("[]", "kwargs must be a JSON object"),
    ]:
        with pytest.raises(Problem, match=re.escape(message)):
            loaded.sql(f"SELECT pgml.embed('tiny', 'the cat', '{kwargs}')")


def test_the_prompts_of_a_model(database, folder):
    path = transformers.write(folder / "prompts")
    said = {"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": "passage"}
    (path / "config_sentence_transformers.json").write_text(json.dumps(said))
    load(database, "e5", path)
    assert (
        database.sql("""SELECT pgml.embed('e5', 'cat') = pgml.embed('e5', 'passage: cat', '{"prompt": ""}'),
        pgml.embed('e5', 'cat', '{"prompt_name": "query"}') = pgml.embed('e5', 'query: cat', '{"prompt": ""}')""")
        == "t|t"
    )


def test_nulls_and_no_texts(loaded):
    assert loaded.sql("SELECT pgml.embed('tiny', NULL::text) IS NULL") == "t"
    assert loaded.sql("SELECT count(*) FROM pgml.embed('tiny', ARRAY[]::text[])") == "0"
    with pytest.raises(Problem, match="inputs must not have NULL elements"):
        loaded.sql("SELECT pgml.embed('tiny', ARRAY['a', NULL])")


@pytest.fixture
def docs(loaded):
    """A table of paragraphs, some thousand of them."""
    paragraphs = (PARAGRAPHS * (4000 // len(PARAGRAPHS) + 1))[:4000]
    loaded.sql("CREATE TABLE docs (id serial PRIMARY KEY, body text, embedding real[])")
    ask_without_rows(loaded, "INSERT INTO docs (body) SELECT unnest(%s::text[])", paragraphs)
    return loaded


def ask_without_rows(database, statement, *arguments):
    with database.connect() as own:
        own.cursor().execute(statement, arguments)


def test_a_table_is_embedded_and_a_cancel_is_heard(docs):
    with docs.connect() as own:
        cursor = own.cursor()
        cursor.execute("SET statement_timeout = 100")
        with pytest.raises(Exception, match="canceling statement"):
            cursor.execute("UPDATE docs SET embedding = pgml.embed('tiny', body || repeat(' the cat', 1000))")
        with pytest.raises(Exception, match="canceling statement"):
            cursor.execute(
                "SELECT count(*) FROM pgml.embed('tiny', (SELECT array_agg(body || id) FROM docs, generate_series(1, 20)))"
            )
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("UPDATE docs SET embedding = pgml.embed('tiny', body)")
        cursor.execute("SELECT count(*) FROM docs WHERE cardinality(embedding) = 36")
        assert cursor.fetchone()[0] == 4000


def test_workers_of_a_parallel_query_embed(docs, major):
    docs.sql("ANALYZE docs")
    alone = docs.sql("SELECT sum(x) FROM (SELECT (pgml.embed('tiny', body))[1]::numeric x FROM docs WHERE id <= 1000)")
    setting = (
        "SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0;"
    )
    query = (
        "SELECT sum(x) FROM (SELECT (pgml.embed('tiny', body))[1]::numeric x FROM docs WHERE id <= 1000 AND body > '')"
    )
    assert "Gather" in docs.sql(f"{setting} EXPLAIN {query}")
    assert docs.sql(f"{setting} {query}") == alone


def test_a_standby_embeds(cluster, tiny):
    cluster.primary.psql(f"SELECT pgml.load_transformer('tiny', '{tiny}')", "app")
    cluster.catch_up()
    query = "SELECT pgml.embed('tiny', 'the cat sat on the mat')"
    assert cluster.replica.psql(query, "app") == cluster.primary.psql(query, "app")
    with pytest.raises(Problem, match="read-only"):
        cluster.replica.psql(f"SELECT pgml.load_transformer('other', '{tiny}')", "app")


def test_a_dump_restored_elsewhere_embeds_the_same_bits_in_a_generated_column(server, loaded):
    model = loaded.sql("SELECT id FROM pgml.models")
    loaded.sql(f"""CREATE TABLE notes (body text, embedding real[] GENERATED ALWAYS AS (pgml.embed({model}, body)) STORED);
        INSERT INTO notes VALUES ('the cat'), (NULL)""")
    before = (
        loaded.sql("SELECT embedding = pgml.embed('tiny', body) FROM notes WHERE body IS NOT NULL"),
        loaded.sql("TABLE notes"),
    )
    assert before[0] == "t"
    dump = server.run("pg_dump", "--format=plain", loaded.name).stdout
    copy = f"{loaded.name}_copy"
    server.psql(f"CREATE DATABASE {copy}")
    try:
        server.psql(dump, copy)
        assert server.psql("TABLE notes", copy) == before[1]
        assert (
            server.psql("SELECT bool_and(embedding = pgml.embed('tiny', body)) FROM notes WHERE body IS NOT NULL", copy)
            == "t"
        )
    finally:
        server.psql(f"DROP DATABASE {copy} WITH (FORCE)")


def test_an_index_by_a_model_is_used(loaded):
    model = loaded.sql("SELECT id FROM pgml.models")
    loaded.sql("CREATE TABLE notes AS SELECT 'note ' || n AS body FROM generate_series(1, 300) n")
    loaded.sql(f"CREATE INDEX ON notes ((pgml.embed({model}, body))); ANALYZE notes")
    plan = loaded.sql(
        f"SET enable_seqscan = off; EXPLAIN SELECT FROM notes WHERE pgml.embed({model}, body) = ARRAY[1]::real[]"
    )
    assert "Index Cond" in plan


def test_connections_share_one_mapping_and_keep_little(server, database):
    load(database, "minilm", minilm())
    database.sql("SELECT pgml.embed('minilm', 'first')")
    folder = server.data / "pgml_cache" / database.sql("SELECT oid FROM pg_database WHERE datname = current_database()")
    (image,) = folder.glob("*.v*")
    assert image.stat().st_size + (4 << 20) > 90 << 20 and image.stat().st_size < 95 << 20
    with database.connect() as own:
        cursor = own.cursor()
        cursor.execute("SELECT pg_backend_pid()")
        status = Path(f"/proc/{cursor.fetchone()[0]}/status")

        def own_memory():
            return int(re.search(r"RssAnon:\s+(\d+) kB", status.read_text())[1]) << 10

        cursor.execute("SELECT pgml.version()")
        before = own_memory()
        cursor.execute("SELECT count(*) FROM pgml.embed('minilm', %s::text[])", (PARAGRAPHS[:60],))
        assert own_memory() - before < 30 << 20


def test_one_backend_makes_the_image_for_all(server, loaded):
    for path in (server.data / "pgml_cache").glob("*/*.v*"):
        path.unlink()
    answers, barrier = [], threading.Barrier(8)

    def embed():
        with loaded.connect() as own:
            barrier.wait()
            cursor = own.cursor()
            cursor.execute("SELECT pgml.embed('tiny', 'the dog')")
            answers.append(cursor.fetchone()[0])

    threads = [threading.Thread(target=embed) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and all(answer == answers[0] for answer in answers)


def test_a_newer_model_is_deployed_and_rolled_back(database, folder, tiny):
    load(database, "p", tiny)
    first = database.sql("SELECT pgml.embed('p', 'cat')")
    assert load(database, "p", transformers.write(folder / "other", hidden_act="relu")) == "p|embedding|transformers|f"
    assert database.sql("SELECT pgml.embed('p', 'cat')") == first
    database.sql("SELECT pgml.deploy(max(id)) FROM pgml.models")
    assert database.sql("SELECT pgml.embed('p', 'cat')") != first
    database.sql("SELECT pgml.deploy('p', 'rollback')")
    assert database.sql("SELECT pgml.embed('p', 'cat')") == first
    assert database.sql("SELECT task, algorithm FROM pgml.deployed_models") == "embedding|transformers"


def test_loading_needs_the_privilege_to_read_files_and_embedding_that_to_predict(loaded, tiny):
    role = f"{loaded.name}_role"
    loaded.sql(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA pgml TO {role}; GRANT INSERT ON pgml.projects TO {role}")
    try:
        with pytest.raises(Problem, match="permission denied to load a transformer from a file"):
            loaded.sql(f"SET ROLE {role}; SELECT pgml.load_transformer('mine', '{tiny}')")
        loaded.sql(f"GRANT pg_read_server_files TO {role}")
        assert load_as(loaded, role, "mine", tiny) == "mine|t"
        with pytest.raises(Problem, match=f'role "{role}" may not train|permission denied for project "tiny"'):
            load_as(loaded, role, "tiny", tiny)
        assert loaded.sql(f"SET ROLE {role}; SELECT cardinality(pgml.embed('tiny', 'cat'))") == "36"
        loaded.sql("SELECT pgml.revoke('tiny', 'public', 'predict')")
        for call in (
            "pgml.embed('tiny', 'cat')",
            "pgml.embed('tiny', ARRAY['cat'])",
            "pgml.rank('tiny', 'cat', ARRAY['cat'])",
        ):
            with pytest.raises(Problem, match='project "tiny" does not exist'):
                loaded.sql(f"SET ROLE {role}; SELECT {call}")
    finally:
        loaded.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


def load_as(database, role, project, path):
    return database.sql(f"SET ROLE {role}; SELECT project, deployed FROM pgml.load_transformer('{project}', '{path}')")


def test_models_of_other_kinds_are_refused_both_ways(loaded, folder):
    loaded.sql(
        "SELECT pgml.load_dataset('iris'); SELECT pgml.train('iris', 'classification', 'pgml.iris', 'target', 'xgboost')"
    )
    load(loaded, "ranker", transformers.write(folder / "ranker", scores=True))
    for call, message in [
        ("pgml.embed('iris', 'cat')", "is no transformer"),
        ("pgml.rank('iris', 'cat', ARRAY['dog'])", "is no transformer"),
        ("pgml.predict('tiny', ARRAY[1])", "is a transformer, and predicts no rows"),
        ("pgml.embed('ranker', 'cat')", "an embedding by a model that gives scores is not supported"),
        ("pgml.rank('tiny', 'cat', ARRAY['dog'])", "a score by a model that gives embeddings is not supported"),
        ("pgml.embed('nothing', 'cat')", 'project "nothing" does not exist'),
        ("pgml.embed(999999, 'cat')", "model 999999 does not exist"),
        ("pgml.export_model('tiny')", "is a transformer"),
        ("pgml.chunk('markdown', 'cat')", 'there is no splitter "markdown"'),
        (
            "pgml.chunk('character', 'cat', '{\"chunk_size\": 10}')",
            "chunk_overlap is 200, more than chunk_size, which is 10",
        ),
        ("pgml.load_transformer('iris', 'relative')", "path must be absolute"),
    ]:
        with pytest.raises(Problem, match=re.escape(message)):
            loaded.sql(f"SELECT {call}")


def changed(path, name, change):
    """Writes a file of JSON with a change."""
    contents = json.loads((path / name).read_text())
    change(contents)
    (path / name).write_text(json.dumps(contents))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config.json", lambda own: own.update(model_type="gpt2"), 'a model of type "gpt2"'),
        ("config.json", lambda own: own.update(hidden_size=33, num_attention_heads=3), "config.json does not say"),
        ("config.json", lambda own: own.update(num_hidden_layers=3), "it has no encoder.layer.2.attention"),
        ("config.json", lambda own: own.update(num_hidden_layers=1 << 40), 'it lacks a valid "num_hidden_layers"'),
        ("config.json", lambda own: own.update(num_attention_heads=5), "no multiple of num_attention_heads"),
        ("config.json", lambda own: own.update(hidden_act="swiglu"), 'the activation "swiglu" is not supported'),
        ("config.json", lambda own: own.pop("vocab_size"), 'it lacks a valid "vocab_size"'),
        (
            "tokenizer.json",
            lambda own: own["model"].update(type="BPE"),
            "the model BPE of tokenizer.json (WordPiece and Unigram are)",
        ),
        (
            "tokenizer.json",
            lambda own: own["model"]["vocab"].update(cat=10**9),
            'the id of "cat" is not below vocab_size',
        ),
        ("tokenizer.json", lambda own: own["model"]["vocab"].pop("[UNK]"), "its vocab lacks the unk_token"),
        ("tokenizer.json", lambda own: own["added_tokens"][0].update(id=4000), "a token is not in the vocabulary"),
        (
            "tokenizer.json",
            lambda own: own.update(post_processor=None),
            "the post_processor of no type is not supported",
        ),
    ],
)
def test_a_file_that_says_something_else_is_refused(database, folder, name, change, message):
    path = transformers.write(folder / "changed")
    changed(path, name, change)
    with pytest.raises(Problem, match=re.escape(message)):
        load(database, "changed", path)
    assert database.sql("SELECT count(*) FROM pgml.models") == "0"


def test_files_that_are_missing_or_no_files(database, folder):
    path = transformers.write(folder / "missing")
    for name in ("tokenizer.json", "config.json"):
        text = (path / name).read_text()
        (path / name).unlink()
        with pytest.raises(Problem, match=f"{name} is missing"):
            load(database, "p", path)
        (path / name).write_text("{")
        with pytest.raises(Problem, match=f"{name} cannot be read"):
            load(database, "p", path)
        (path / name).write_text(text)
    (path / "model.safetensors").rename(path / "pytorch_model.bin")
    with pytest.raises(Problem, match="there is no model.safetensors(?s:.)*There is pytorch_model.bin"):
        load(database, "p", path)
    (path / "model.safetensors").mkdir()
    with pytest.raises(Problem, match="is no regular file"):
        load(database, "p", path)
    with pytest.raises(Problem, match="there is no model.safetensors"):
        load(database, "p", folder / "nowhere")


def test_damaged_files_are_refused_and_the_server_goes_on(database, folder):
    """Bytes changed and cut anywhere: an error, or a model that can be used."""
    whole = {
        name: (transformers.write(folder / "whole") / name).read_bytes()
        for name in ("model.safetensors", "tokenizer.json")
    }
    chance = random.Random(5)
    path = transformers.write(folder / "damaged")
    with database.connect() as own:
        cursor = own.cursor()
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()
        for attempt in range(120):
            name = chance.choice(list(whole))
            contents = bytearray(whole[name])
            if attempt % 3 == 0:
                del contents[chance.randrange(len(contents)) :]
            else:
                within = 4000 if attempt % 3 == 1 else len(contents)
                for _ in range(chance.randrange(1, 4)):
                    contents[chance.randrange(min(within, len(contents)))] = chance.randrange(256)
            (path / name).write_bytes(contents)
            with contextlib.suppress(Exception):
                cursor.execute(f"SELECT pgml.load_transformer('d{attempt}', '{path}', true)")
                cursor.execute(f"SELECT pgml.embed('d{attempt}', 'the cat sat on the mat')")
            (path / name).write_bytes(whole[name])
        cursor.execute("SELECT pg_backend_pid()")
        assert cursor.fetchone() == pid
    shutil.rmtree(path)


def test_stored_bytes_that_are_damaged_are_told(loaded):
    loaded.sql("UPDATE pgml.files SET data = substr(data, 1, length(data) / 2)")
    with pytest.raises(Problem, match="the transformer is damaged"):
        loaded.sql("SELECT pgml.embed('tiny', 'cat')")
