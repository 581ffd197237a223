-- Who may do what: organizations, people, machine credentials, sessions, signing keys, and the record of changes.

CREATE TABLE organizations (
    id             uuid PRIMARY KEY,
    slug           text NOT NULL CHECK (slug ~ '^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$'),
    name           text NOT NULL,
    retention_days integer NOT NULL DEFAULT 0 CHECK (retention_days >= 0), -- 0: the node's default, as for every limit below
    intake_qps     integer NOT NULL DEFAULT 0 CHECK (intake_qps >= 0),
    query_qps      integer NOT NULL DEFAULT 0 CHECK (query_qps >= 0),
    quota_bytes    bigint NOT NULL DEFAULT 0 CHECK (quota_bytes >= 0),
    created_at     timestamptz NOT NULL
);
-- Slugs that differ only by case would be one name to a reader.
CREATE UNIQUE INDEX organizations_slug ON organizations (lower(slug));

CREATE TABLE users (
    id            uuid PRIMARY KEY,
    email         text NOT NULL,
    name          text NOT NULL DEFAULT '',
    password_hash text NOT NULL DEFAULT '', -- empty: nobody can sign in with a password yet
    created_at    timestamptz NOT NULL
);
CREATE UNIQUE INDEX users_email ON users (lower(email));

CREATE TABLE memberships (
    org_id    uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
    user_id   uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    role      smallint NOT NULL CHECK (role BETWEEN 1 AND 4), -- viewer, editor, admin, owner: ordered by rank
    joined_at timestamptz NOT NULL,
    PRIMARY KEY (org_id, user_id)
);
CREATE INDEX memberships_user ON memberships (user_id);

CREATE TABLE api_tokens (
    id           text PRIMARY KEY, -- the public 8 characters
    org_id       uuid NOT NULL REFERENCES organizations ON DELETE CASCADE,
    user_id      uuid REFERENCES users ON DELETE SET NULL, -- the maker
    name         text NOT NULL,
    hash         bytea NOT NULL CHECK (octet_length(hash) = 32),
    scopes       smallint NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz, -- null: never
    last_used_at timestamptz
);
CREATE INDEX api_tokens_org ON api_tokens (org_id);
CREATE INDEX api_tokens_user ON api_tokens (user_id);

-- A session is one family of refresh tokens. Only the newest token is good; former ones are kept so that the reuse of one is told from a wrong guess.
CREATE TABLE sessions (
    id         text PRIMARY KEY,
    user_id    uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    hash       bytea NOT NULL CHECK (octet_length(hash) = 32),
    address    text NOT NULL DEFAULT '',
    agent      text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE former_refresh_tokens (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    session_id text NOT NULL REFERENCES sessions ON DELETE CASCADE,
    rotated_at timestamptz NOT NULL
);
CREATE INDEX former_refresh_tokens_session ON former_refresh_tokens (session_id);

CREATE TABLE invites (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    user_id    uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    expires_at timestamptz NOT NULL
);
CREATE INDEX invites_user ON invites (user_id);

CREATE TABLE jwt_keys (
    id          text PRIMARY KEY,
    secret      bytea NOT NULL, -- sealed
    created_at  timestamptz NOT NULL,
    valid_until timestamptz -- null: signs new tokens
);

-- One row at most: the hash of the one-time code that guards the first-run setup. It is gone once the first user exists.
CREATE TABLE setup (
    id   integer PRIMARY KEY DEFAULT 1 CHECK (id = 1),
    code bytea NOT NULL CHECK (octet_length(code) = 32)
);

-- Ids of organizations and users are kept as they were: an entry outlives what it speaks of.
CREATE TABLE audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL,
    org_id  uuid, -- null: the installation as a whole
    actor   text NOT NULL,
    action  text NOT NULL,
    target  text NOT NULL DEFAULT '',
    outcome text NOT NULL DEFAULT 'ok',
    address text NOT NULL DEFAULT '',
    request text NOT NULL DEFAULT '',
    detail  json NOT NULL DEFAULT '{}' -- not jsonb, which cannot hold a NUL
);
CREATE INDEX audit_org ON audit (org_id, at DESC, id DESC);
