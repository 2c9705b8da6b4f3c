-- The model of docs/guide/text.md, whose folder the test names.
CREATE EXTENSION IF NOT EXISTS pgml;
SELECT pgml.load_transformer('minilm', :'minilm');
