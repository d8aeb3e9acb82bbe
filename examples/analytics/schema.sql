-- The tables that the tools query, for PostgreSQL and SQLite.
CREATE TABLE customers (
    id integer PRIMARY KEY,
    name text NOT NULL,
    region text NOT NULL
);
CREATE TABLE sales (
    id integer PRIMARY KEY,
    customer_id integer NOT NULL REFERENCES customers (id),
    sold_on date NOT NULL,
    cents bigint NOT NULL
);
CREATE INDEX sales_by_day ON sales (sold_on);
