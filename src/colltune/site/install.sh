#!/bin/sh
# Puts this folder into effect on this host: owners of folders, systemd's units or the scrontab, and
# Slurm's hooks. Run it as root; run it again after each change. Written by `colltune site init`.
#     sh install --print      shows the steps and does nothing
set -eu
user=
jobs=
registry=
folders=
nightly=
here=$(cd -P -- "$(dirname -- "$0")" && pwd)

say() { printf 'install: %s\n' "$*"; }
fail() { say "$*" >&2 && exit 1; }
step() {
    printf '+ %s\n' "$*"
    [ -n "$print" ] || "$@"
}
# Print what Slurm's configuration says of $1, if anything.
configured() { printf '%s\n' "$config" | sed -n "s/^$1\(\[[0-9]*\]\)\{0,1\} *= *//p" | grep -v '^(null)$'; }

print=
case ${1-} in '') ;; --print) print=yes ;; *) fail "usage: sh install [--print]" ;; esac
[ -n "$print" ] || [ "$(id -u)" = 0 ] ||
    fail "root must run this, since it sets owners, units and slurm.conf; sh install --print shows the steps"
group=$(id -gn -- "$user" 2>/dev/null) ||
    fail "no user $user here; make that account on all nodes, or change cluster.user in $here/site.toml and run: colltune site init $here"

# Slurm and all jobs run what is here: whoever can change it, or a folder above, could run anything
slurm_user=root config=
if [ -d "$here/slurm" ]; then
    config=$(scontrol show config 2>/dev/null) ||
        fail "scontrol does not answer; run this where Slurm's controller runs, while it runs"
    slurm_user=$(configured SlurmUser | sed 's/(.*//')
    slurm_user=${slurm_user:-root}
fi
owner=$(stat -c %u -- "$here") system=$(stat -c %u /)
set --
for part in "$here" "$(cd -- "$(dirname -- "$0")" && pwd)"; do
    while part=${part%/*} && [ -n "$part" ]; do set -- "$part/" "$@"; done
done
open=$(find / "$@" -maxdepth 0 \( ! -uid 0 ! -uid "$system" ! -user "$slurm_user" -o -perm /022 ! -perm -1000 \))
set --
for part in site.toml install measure tokens campaigns lib modulefiles slurm systemd; do
    [ ! -e "$here/$part" ] && [ ! -L "$here/$part" ] || set -- "$@" "$here/$part"
done
open=$open$(find "$@" \( -type l -o -perm /022 -o ! -uid 0 ! -uid "$owner" ! -user "$user" ! -user "$slurm_user" \))
open=$open$(find "$here" -maxdepth 0 -perm /022)
[ -z "$open" ] || fail "others than root can change this, or it is a link: $(printf '%s' "$open" | tr '\n' ' ')
see that nobody has changed it (colltune site init writes anew what is removed), then chmod go-w and chown root it"

# what the hooks read must be root's, or Slurm would run what others can change
step chown root "$here" "$here/site.toml" "$here/install" "$here/measure"
step chown -R root "$here/campaigns" "$here/modulefiles"
# shellcheck disable=SC2086 # the folders are words
step install -d -m 755 -o "$user" -g "$group" $folders
if [ -d "$here/slurm" ]; then
    step chown -R root "$here/slurm"
    step install -d -m 755 -o "$slurm_user" "$jobs"
    for private in summaries.header secret; do
        [ ! -f "$here/slurm/$private" ] || step chown "$slurm_user" "$here/slurm/$private"
    done
fi
[ ! -d "$here/lib" ] || step chown -R root "$here/lib"
[ ! -f "$here/tokens" ] || step chown "$user" "$here/tokens"

if [ -d "$here/systemd" ] && [ -d /run/systemd/system ]; then
    step install -m 644 "$here/systemd/"* /etc/systemd/system/
    step systemctl daemon-reload
    [ ! -f "$here/systemd/colltune.service" ] || step systemctl enable colltune.service
    [ ! -f "$here/systemd/colltune.service" ] || step systemctl restart colltune.service
    [ "$nightly" != systemd ] || step systemctl enable --now colltune-retrain.timer
elif [ -f "$here/systemd/colltune.service" ]; then
    say "no systemd runs here; keep the service running as $user by other means:"
    say "  env $(sed -n 's/^Environment=//p' "$here/systemd/colltune.service" | tr '\n' ' ')$(sed -n 's/^ExecStart=//p' "$here/systemd/colltune.service")"
fi
if [ "$nightly" = scrontab ]; then
    printf '+ scrontab -u %s, its other lines kept\n' "$user"
    [ -n "$print" ] || {
        scrontab -u "$user" -l 2>/dev/null | sed '/^# colltune: begin/,/^# colltune: end/d'
        cat "$here/scrontab"
    } | scrontab -u "$user" -
fi

[ -d "$here/slurm" ] || exit 0
missing=
while IFS='=' read -r name value; do
    now=$(configured "$name") || now=
    case $now in
    "$value") ;;
    '') missing="$missing $name" ;;
    *)
        missing=others
        break
        ;;
    esac
done <"$here/slurm/slurm.conf"
conf=$(configured SLURM_CONF) || conf=
case $missing in
'') say "slurm.conf has the hooks already" ;;
others)
    fail "slurm.conf has $name=$now; let that program call $value with its own environment (for TaskProlog: print its output, too), and put the other lines of $here/slurm/slurm.conf into slurm.conf"
    ;;
*)
    [ -f "$conf" ] || fail "no $conf here; put the lines of $here/slurm/slurm.conf into slurm.conf where the controller runs, then: scontrol reconfigure"
    conf=$(readlink -f "$conf")
    step cp -p "$conf" "$conf.before-colltune"
    step cp -p "$conf" "$conf.new"
    printf '+ cat %s >> %s\n' "$here/slurm/slurm.conf" "$conf"
    [ -n "$print" ] || { printf '\n' && cat "$here/slurm/slurm.conf"; } >>"$conf.new"
    step mv "$conf.new" "$conf"
    say "where nodes have a slurm.conf of their own, copy $conf there first, as after each change"
    step scontrol reconfigure
    # before Slurm 23.11 the controller starts a PrologSlurmctld only if it began with one
    if command -v systemctl >/dev/null && systemctl --quiet is-active slurmctld 2>/dev/null; then
        step systemctl restart slurmctld
    else
        say "restart slurmctld, too, where Slurm is older than 23.11; jobs go on meanwhile"
    fi
    ;;
esac
say "next, as $user: sh $here/measure; then: colltune site check $here"
