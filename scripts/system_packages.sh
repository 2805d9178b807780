#!/bin/sh
# Installs the system packages of some tests if it can (root, apt-get), else prints their names.
# With CI=true a missing package is a failure; otherwise the tests that need it are skipped.
set -eu

needed='chromium ffmpeg gcc gir1.2-gst-rtsp-server-1.0 glib-networking gstreamer1.0-plugins-bad
gstreamer1.0-plugins-good libc6-dev libffmpeg-nvenc-dev opencv-doc openssl python3-gi redis-server
systemd xvfb'

is_present() {
  case $1 in
    gir1.2-gst-rtsp-server-1.0) ls /usr/lib/*/girepository-1.0/GstRtspServer-1.0.typelib ;;
    glib-networking) ls /usr/lib/*/gio/modules/libgiognutls.so ;;
    gstreamer1.0-plugins-bad) ls /usr/lib/*/gstreamer-1.0/libgstvideoparsersbad.so ;;
    gstreamer1.0-plugins-good) ls /usr/lib/*/gstreamer-1.0/libgstrtp.so ;;
    libc6-dev) test -e /usr/include/stdio.h ;;
    libffmpeg-nvenc-dev) test -e /usr/include/ffnvcodec ;;
    python3-gi) test -e /usr/lib/python3/dist-packages/gi ;;
    opencv-doc) test -e /usr/share/doc/opencv-doc/examples/data/vtest.avi ;;
    redis-server) command -v redis-server || command -v valkey-server ;;
    systemd) command -v systemd-analyze >/dev/null ;;
    xvfb) command -v Xvfb >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing() {
  for package in $needed; do
    is_present "$package" >/dev/null 2>&1 || printf '%s ' "$package"
  done
}

absent=$(missing)
if [ -n "$absent" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing system packages for tests: $absent"
  export DEBIAN_FRONTEND=noninteractive
  # Slim images exclude /usr/share/doc, which has the clips of opencv-doc.
  # shellcheck disable=SC2086  # split into packages
  apt-get update -qq && apt-get install -qq --no-install-recommends \
    -o Dpkg::Options::=--path-include='/usr/share/doc/opencv-doc/*' $absent || true
  absent=$(missing)
fi
if [ -n "$absent" ]; then
  echo "Missing system packages of some tests: $absent" >&2
  echo "On Debian or Ubuntu: sudo apt-get update && sudo apt-get install $absent" >&2
  if [ "${CI:-}" = true ]; then
    exit 1
  fi
  echo "Continuing without them: the tests that need them are skipped." >&2
fi
