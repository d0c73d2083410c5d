#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Create .venv and install dmace into it. The optional argument names an extra of pyproject.toml, e.g. `dev` for tests.
# A stamp file in .venv records the extra and a checksum of the directory name and pyproject.toml; nothing is done if it
# is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

extra="${1:-}"
key="$( (pwd; cat pyproject.toml) | cksum | cut -d' ' -f1)"
[[ -f .venv/.installed-dev-$key || -f .venv/.installed-$extra-$key ]] && exit 0
[[ -z $extra ]] && compgen -G ".venv/.installed-*-$key" >/dev/null && exit 0

say() { printf '%s\n' "$*" >&2; }

if [[ ! -x .venv/bin/python ]] || ! .venv/bin/python -c '' 2>/dev/null; then
    for python in python3 python3.13 python3.12 python3.11 python3.14; do
        # A name on PATH may be a shim for a version that is not installed, so run it.
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
        python=""
    done
    if [[ -z $python ]]; then
        say "setup: dmace needs Python 3.11 or newer, which was not found (Debian, Ubuntu: apt install python3 python3-venv)."
        exit 1
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        say "setup: $("$python" --version) cannot create a virtual environment (Debian, Ubuntu: apt install python3-venv)."
        exit 1
    fi
    say "Creating .venv with $("$python" --version)."
    rm -rf .venv
    "$python" -m venv .venv
fi

if ! command -v "${CXX:-g++}" >/dev/null && ! command -v clang++ >/dev/null; then
    say "setup: no C++ compiler was found; simulations need one (Debian, Ubuntu: apt install g++)."
fi

say "Installing Python packages into .venv; this takes a minute or two, the first time only."
log=.venv/install.log
if [[ -t 2 ]]; then
    show() { awk '/^ *Collecting |^Installing /{printf "\r\033[K  %.70s", $1 " " $2; fflush()} END{printf "\r\033[K"}' >&2; }
else
    show() { cat >/dev/null; }
fi
if ! .venv/bin/python -m pip install --disable-pip-version-check --progress-bar off -e ".${extra:+[$extra]}" 2>&1 |
        tee "$log" | show; then
    grep -i error "$log" | tail -n 5 >&2 || tail -n 5 "$log" >&2
    say "setup: pip could not install the packages; its complete output is in $log."
    exit 1
fi
rm -f .venv/.installed-*
touch ".venv/.installed-$extra-$key"
