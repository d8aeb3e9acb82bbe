-- The PostgreSQL role for the replicas: it can read two tables and can't write. The role has no password, so nobody can
-- log in before you set a password: \password analytics_reader
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'analytics_reader') THEN
        CREATE ROLE analytics_reader LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;
    END IF;
END
$$;
ALTER ROLE analytics_reader SET default_transaction_read_only = on;
ALTER ROLE analytics_reader SET statement_timeout = '5s';
GRANT SELECT ON customers, sales TO analytics_reader;
