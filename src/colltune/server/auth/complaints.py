"""What is wrong with a file of tokens."""

from __future__ import annotations

from functools import partial

from colltune.errors import Complaint, TokenFileError

tokenfile = partial(Complaint, error=TokenFileError)

# a line for each, as long as it is: what is said stands beside its code
# fmt: off
NOT_A_NAME = tokenfile("not-a-name", "{name!r} cannot name a token: use up to 64 letters, digits, '.', '_', '@' and '-'")
TOKENS_TOO_LARGE = tokenfile("tokens-too-large", "{path}: larger than {most} bytes, so this is not a token file", "make it with `colltune site token add`")
TOKENS_NOT_REGULAR = tokenfile("tokens-not-regular", "{path}: not a regular file, which a token file must be", "make it with `colltune site token add`")
TOKENS_ACCESSIBLE = tokenfile("tokens-accessible", "{path}: other users can access it (mode {mode:04o})", "Run: chmod 600 {path}")
TOKENS_OF_ANOTHER_USER = tokenfile("tokens-of-another-user", "{path}: belongs to uid {uid}, and not to the service (uid {own_uid}) or root", "Run: chown {own_uid} {path}")
TOKENS_FIRST_LINE = tokenfile("tokens-first-line", "{path}, line 1: is not 'colltune-tokens 1'", "make it with `colltune site token add`")
TOKEN_WORDS = tokenfile("token-words", "{where}: has {count} words, not name, scopes, sha256 and expiry", "make it with `colltune site token add`")
TOKEN_NAME = tokenfile("token-name", "{where}: the name is malformed", "make it with `colltune site token add`")
TOKEN_HASH = tokenfile("token-hash", "{where}: the hash is not sha256: and 64 hexadecimal digits", "make it with `colltune site token add`")
NO_TOKENS = tokenfile("no-tokens", "{path}: no such token file", "make it with `colltune site token add`")
TOKENS_UNREADABLE = tokenfile("tokens-unreadable", "{path}: the token file cannot be read: {why}")
SECOND_TOKEN = tokenfile("second-token", "{path}, line {number}: a second token {name}", "Remove it.")
TOKEN_SCOPE = tokenfile("token-scope", "{where}: a scope is unknown", "known: {known}")
TOKEN_EXPIRY = tokenfile("token-expiry", "{where}: the expiry is neither a time such as 2027-01-31T00:00:00+00:00 nor '-'")
