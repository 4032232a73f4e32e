-- A producer id that was never given before.
SELECT nextval('producer_ids')
