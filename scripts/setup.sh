#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Create .venv and install dmace into it. The optional argument names extras of pyproject.toml, separated by commas, e.g.
# `dev` for tests or `dev,torch`. Stamp files in .venv record each extra with a checksum of the directory name and
# pyproject.toml; only extras without a stamp are installed, and none is removed.
set -euo pipefail
cd "$(dirname "$0")/.."

key="$( (pwd; cat pyproject.toml) | cksum | cut -d' ' -f1)"

# `dev` contains the extras that tests need, but neither torch nor gpu; every extra contains the package itself.
installed() {
    [[ -f .venv/.installed-$1-$key ]] && return 0
    case "$1" in
        train | sweep | fpga) [[ -f .venv/.installed-dev-$key ]] ;;
        "") compgen -G ".venv/.installed-*-$key" >/dev/null ;;
        *) return 1 ;;
    esac
}

missing=()
IFS=, read -r -a wanted <<<"${1:-}"
for extra in "${wanted[@]:-}"; do
    if [[ -n $extra ]] && ! grep -q "^$extra = \[" pyproject.toml; then
        echo "setup: there is no extra '$extra' in pyproject.toml." >&2
        exit 1
    fi
    installed "$extra" || missing+=("$extra")
done
[[ ${#missing[@]} == 0 ]] && exit 0
extras="$(IFS=,; echo "${missing[*]}")"

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
pip() { .venv/bin/python -m pip install --disable-pip-version-check --progress-bar off "$@"; }

# PyTorch's default wheel for Linux needs CUDA libraries of several GB. Where an index offers the wheel for CPUs, whose
# version ends with +cpu, that one is installed.
if [[ ",$extras," == *,torch,* ]] && ! .venv/bin/python -c 'import torch' 2>/dev/null; then
    pip torch==2.13.0+cpu >/dev/null 2>&1 || say "No PyTorch for CPUs is offered; the default one, of several GB, is taken."
fi

if ! pip -e ".${extras:+[$extras]}" 2>&1 |
        tee "$log" | show; then
    grep -i error "$log" | tail -n 5 >&2 || tail -n 5 "$log" >&2
    say "setup: pip could not install the packages; its complete output is in $log."
    exit 1
fi
find .venv -maxdepth 1 -name '.installed-*' ! -name "*-$key" -delete
for extra in "${missing[@]}"; do
    touch ".venv/.installed-$extra-$key"
done
