#!/bin/sh
# Builds the emulated driver, NVRTC and management library into a folder: build.sh OUTDIR
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d "$out/build-XXXXXX")
trap 'rm -rf "$work"' EXIT
{ printf 'R"cusim('; cat "$here/abi.hpp" "$here/cusim.hpp"; printf ')cusim"'; } >"$work/prelude.inc"
flags="-std=c++17 -O2 -Wall -shared -fPIC -fvisibility=hidden -pthread"
${CXX:-g++} $flags "$here/fakecuda.cpp" -o "$work/libcuda.so.1" -ldl &
cuda=$!
${CXX:-g++} $flags "$here/fakenvml.cpp" -o "$work/libnvidia-ml.so.1"
${CXX:-g++} $flags -I"$work" "$here/fakenvrtc.cpp" -o "$work/libnvrtc.so.13"
wait $cuda
# A rename leaves the libraries of running programs alone.
mv "$work/libnvidia-ml.so.1" "$work/libcuda.so.1" "$work/libnvrtc.so.13" "$out"
