# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the scripts here and in tests/releases: small Debian machines in folders. Needs root and mmdebstrap.
# A machine is made once and kept in the user's cache folder; what runs in it writes to a layer that is thrown away.

machine_cache=${XDG_CACHE_HOME:-$HOME/.cache}/sunxi/machines

machine_need() {
  ((EUID == 0)) || { echo "${0##*/}: needs root, for mounts and chroot"; exit 77; }
  "$(dirname "${BASH_SOURCE[0]}")/../../run" --install "$@" >&2 || exit 77
}

# The archive that this machine's own packages of Debian come from.
machine_mirror() {
  # shellcheck disable=SC2016  # apt's own variables
  apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    sed -n 's/^Debian Debian //p' | head -n 1 | grep . ||
    { echo "no archive of Debian's among apt's sources (run apt-get update)" >&2; return 1; }
}

# machine RELEASE NAME PACKAGE...: makes the machine NAME if it is not there; its folder is then in $machine. Of the
# packages those that the release does not have are left out and listed in the machine's /absent.
machine() {
  local release=$1 name=$2 mirror suite=$1 sources=() preferred=()
  shift 2
  machine=$machine_cache/$name
  mkdir -p "$machine_cache"
  # Its own lock, which programs that are started do not inherit.
  local lock
  exec {lock}>"$machine_cache/$name.lock"
  flock "$lock"
  if [[ ! -e $machine/complete || $(cat "$machine/complete") != "$release $*" ]]; then
    mirror=$(machine_mirror) || return 77
    [[ $release == experimental ]] && suite=sid
    sources=("deb $mirror $suite main")
    [[ $release == experimental ]] && sources+=("deb $mirror experimental main")
    rm -rf --one-file-system "${machine:?}"
    # An archive that is a copy of an older day is good enough for tests; signatures are checked as always.
    mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' \
      "$suite" "$machine" "${sources[@]}" >&2 || return
    sed 's/^deb /deb-src /' "$machine/etc/apt/sources.list" >"$machine/etc/apt/sources.list.d/source.list"
    if (($#)); then
      [[ $release == experimental ]] && preferred=(libssl-dev/experimental openssl/experimental)
      # shellcheck disable=SC2016  # expanded inside
      machine_keep=1 machine_enter -- sh -c '
        export DEBIAN_FRONTEND=noninteractive
        preferred=$1
        shift
        apt-get -qq update
        for package; do
          if [ "$(apt-cache madison "$package" | grep -v Sources)" ]; then set -- "$@" "$package"; else echo "$package"; fi
          shift
        done >/absent
        # No service is started in a folder.
        printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d
        chmod 755 /usr/sbin/policy-rc.d
        apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends "$@" $preferred </dev/null &&
          apt-get clean' sh "${preferred[*]}" "$@" >"$machine_cache/$name.log" 2>&1 ||
        { tail -n 20 "$machine_cache/$name.log" >&2; return 1; }
    fi
    printf '%s\n' "$release $*" >"$machine/complete"
  fi
  exec {lock}>&-
}

# machine_enter [--own-net] [--bind FROM TO | --bind-ro FROM TO]... -- COMMAND...: runs it in $machine, as its root, in
# name spaces of its own: every process it leaves behind ends with it. Set machine_keep=1 to change the machine itself.
machine_enter() {
  local binds=() net=() note=$machine_cache/layer.$BASHPID status
  while [[ $1 != -- ]]; do
    case $1 in
      --own-net) net=(--net) && shift ;;
      --bind | --bind-ro) binds+=("${1#--}" "$2" "$3") && shift 3 ;;
    esac
  done
  shift
  # shellcheck disable=SC2016  # expanded inside
  unshare --mount --pid --fork --kill-child "${net[@]}" bash -c '
    set -e
    machine=$1 keep=$2 own_net=$3 count=$4
    shift 4
    mount --make-rprivate /
    root=$machine
    if [[ ! $keep ]]; then
      layer=$(mktemp -d)
      mount -t tmpfs -o size=80% tmpfs "$layer"
      mkdir "$layer"/{upper,work,root}
      mount -t overlay overlay -o "lowerdir=$machine,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
      root=$layer/root
    fi
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    if [[ $own_net ]]; then
      ip link set lo up
    else
      cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    fi
    while ((count > 0)); do
      mkdir -p "$root$3"
      mount --bind "$2" "$root$3"
      if [[ $1 == bind-ro ]]; then mount -o remount,bind,ro "$root$3"; fi
      shift 3
      count=$((count - 3))
    done
    if [[ ! $keep ]]; then chmod 1777 "$root/tmp"; fi
    # The layer is gone with this name space; its empty folder is left.
    if [[ ! $keep ]]; then echo "$layer" >&9; fi
    exec 9>&-
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 chroot "$root" "$@"
  ' bash "$machine" "${machine_keep:-}" "${net[*]}" "${#binds[@]}" "${binds[@]}" "$@" 9>"$note"
  status=$?
  rmdir "$(cat "$note")" 2>/dev/null
  rm -f "$note"
  return $status
}
