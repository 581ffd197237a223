-- What a segment's index was built as, so that those that are outdated are found without reading them. Version 0: it is missing or damaged. Version 1: written before
-- versions were counted. See millstream.IndexVersion.
ALTER TABLE segments
    ADD COLUMN index_version smallint NOT NULL DEFAULT 1 CHECK (index_version >= 0),
    ADD COLUMN index_fields text[] NOT NULL DEFAULT '{}'; -- fields of which it has filters, beside those that it always has
