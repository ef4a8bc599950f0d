#!/bin/sh
# Builds the emulated driver, NVRTC, cuBLASLt, cuDNN, NCCL and management library into a folder: build.sh OUTDIR
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d "$out/build-XXXXXX")
trap 'rm -rf "$work"' EXIT
# The driver is open when cuDNN is: what it uses of it stays undefined here.
${CXX:-g++} -std=c++17 -O2 -Wall -shared -fPIC -fvisibility=hidden "$here/fakecudnn.cpp" -o "$work/libcudnn.so.9"
{ printf 'R"cusim('; cat "$here/abi.hpp" "$here/cusim.hpp"; printf ')cusim"'; } >"$work/prelude.inc"
flags="-std=c++17 -O2 -Wall -shared -fPIC -fvisibility=hidden -pthread"
${CXX:-g++} $flags "$here/fakecuda.cpp" -o "$work/libcuda.so.1" -ldl &
driver=$!
# The driver is open when cuBLASLt is: what it uses of it stays undefined here.
${CXX:-g++} $flags "$here/fakecublaslt.cpp" -o "$work/libcublasLt.so.13" &
products=$!
${CXX:-g++} $flags "$here/fakenccl.cpp" -o "$work/libnccl.so.2"
${CXX:-g++} $flags "$here/fakenvml.cpp" -o "$work/libnvidia-ml.so.1"
${CXX:-g++} $flags -I"$work" "$here/fakenvrtc.cpp" -o "$work/libnvrtc.so.13"
wait $driver
wait $products
cp "$work/libcublasLt.so.13" "$work/libcublas.so.13"
# A rename leaves the libraries of running programs alone.
mv "$work"/lib* "$out"
