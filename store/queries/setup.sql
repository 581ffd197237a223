-- name: KeepSetupSeed :one
-- The first one stays, so that nodes that start side by side agree.
INSERT INTO setup (code) SELECT @seed::bytea WHERE NOT EXISTS (SELECT 1 FROM users)
ON CONFLICT (id) DO UPDATE SET code = setup.code RETURNING code;

-- name: SetupSeed :one
SELECT code FROM setup;

-- name: ForgetSetupSeed :exec
DELETE FROM setup;
