-- name: SetSetupCode :execrows
INSERT INTO setup (code) SELECT @code::bytea WHERE NOT EXISTS (SELECT 1 FROM users)
ON CONFLICT (id) DO UPDATE SET code = excluded.code;

-- name: SetupCode :one
SELECT code FROM setup;

-- name: ForgetSetupCode :exec
DELETE FROM setup;
