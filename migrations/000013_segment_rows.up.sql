-- Releases that know no manifests read the catalog's rows as the table segments, and would take what is sealed for deleted: their answers would lack it, their reconciliation
-- would delete its objects. That name is now a view that is the rows while all segments are rows, and refuses from the transaction on that seals the first ones. A database in which some are
-- sealed has no such release any more, but perhaps one that knows manifests beside that name.
ALTER TABLE segments RENAME TO segment_rows;
CREATE FUNCTION all_segments_are_rows() RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM manifests WHERE state <> 'replaced') THEN
        RAISE EXCEPTION 'this release of Millstream is too old for its database, in which days are sealed: stop this node and start it with the release of the others';
    END IF;
    RETURN true;
END $$;
DO $$
BEGIN
    EXECUTE 'CREATE VIEW segments AS SELECT * FROM segment_rows'
        || CASE WHEN EXISTS (SELECT 1 FROM manifests WHERE state <> 'replaced') THEN '' ELSE ' WHERE all_segments_are_rows()' END;
END $$;
