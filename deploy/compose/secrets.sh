#!/bin/sh
# Make the secrets of ../compose.yaml in ./secrets, once: a file that is there already stays as it is.
#
# The containers run as the user 10001 and Compose mounts these files with the owner they have here. Run this as root, so
# that the files can be given to that user; otherwise they stay yours, and the containers cannot read them.
set -eu
umask 077
cd "$(dirname "$0")"
mkdir -p secrets

# 32 random bytes in base64, with - and _ as in URLs and without padding: 43 characters.
random() { head -c 32 /dev/urandom | base64 | tr -d '\n=' | tr '+/' '-_'; }
keep() { [ -e "secrets/$1" ] || printf '%s\n' "$2" >"secrets/$1"; }

keep postgres.password "$(random)"
keep pgpass "postgres:5432:noetl:noetl:$(cat secrets/postgres.password)"
keep master.key "$(head -c 32 /dev/urandom | base64)"
keep admin.token "noetl_admin_$(random)"
keep worker.token "noetl_worker_$(random)"

if [ "$(id -u)" = 0 ]; then
    chown 10001:10001 secrets/pgpass secrets/master.key secrets/admin.token secrets/worker.token
else
    echo "secrets.sh: run this as root, or the containers' user 10001 cannot read ./secrets" >&2
fi
