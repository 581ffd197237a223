DROP FUNCTION rate_leases_after;
DROP TABLE rate_leases;
