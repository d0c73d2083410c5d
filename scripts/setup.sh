#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make .venv and install dmace into it; with the argument `dev`, what the tests need too.
# Does nothing where that is done already: the stamp names the folder, pyproject.toml and the extra.
set -euo pipefail
cd "$(dirname "$0")/.."

extra="${1:-}"
key="$( (pwd; cat pyproject.toml) | cksum | cut -d' ' -f1)"
[[ -f .venv/.installed-dev-$key || -f .venv/.installed-$extra-$key ]] && exit 0
[[ -z $extra ]] && compgen -G ".venv/.installed-*-$key" >/dev/null && exit 0

say() { printf '%s\n' "$*" >&2; }

if [[ ! -x .venv/bin/python ]] || ! .venv/bin/python -c '' 2>/dev/null; then
    for python in python3 python3.13 python3.12 python3.11 python3.14; do
        # A name on PATH may be a shim of a version that is not installed: ask it.
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
        python=""
    done
    if [[ -z $python ]]; then
        say "setup: dmace needs Python 3.11 or newer, and none was found (Debian, Ubuntu: apt install python3 python3-venv)."
        exit 1
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        say "setup: $("$python" --version) cannot make a virtual environment (Debian, Ubuntu: apt install python3-venv)."
        exit 1
    fi
    say "Making .venv with $("$python" --version)."
    rm -rf .venv
    "$python" -m venv .venv
fi

if ! command -v "${CXX:-g++}" >/dev/null && ! command -v clang++ >/dev/null; then
    say "setup: no C++ compiler was found; simulations need one (Debian, Ubuntu: apt install g++)."
fi

say "Installing Python packages into .venv, once; a minute or two."
log=.venv/install.log
if [[ -t 2 ]]; then
    show() { awk '/^ *Collecting |^Installing /{printf "\r\033[K  %.70s", $1 " " $2; fflush()} END{printf "\r\033[K"}' >&2; }
else
    show() { cat >/dev/null; }
fi
if ! .venv/bin/python -m pip install --disable-pip-version-check --progress-bar off -e ".${extra:+[$extra]}" 2>&1 |
        tee "$log" | show; then
    grep -i error "$log" | tail -n 5 >&2 || tail -n 5 "$log" >&2
    say "setup: pip could not install the packages; the whole output is in $log."
    exit 1
fi
rm -f .venv/.installed-*
touch ".venv/.installed-$extra-$key"
