DROP TABLE audit, setup, jwt_keys, invites, former_refresh_tokens, sessions, api_tokens, memberships, users, organizations;
