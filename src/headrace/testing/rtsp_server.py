"""GStreamer's RTSP server: `python3 rtsp_server.py FILE PORT PEM [USER PASSWORD]`.

Runs in the system's interpreter, for which Debian installs GStreamer's bindings. Prints its port,
then serves the file at rtsp://127.0.0.1:PORT/live in real time, from the start for every client.
PEM is a file with a key and a certificate for TLS, or "-". For each client it prints the moment of
pts 0, in nanoseconds of the system's monotonic clock.
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import Gio, GLib, Gst, GstRtspServer  # noqa: E402

LAUNCH = (
    "( filesrc location={} ! qtdemux ! h264parse ! rtph264pay name=pay0 pt=96 config-interval=-1 )"
)
_POLL_MILLISECONDS = 5


def main(path: str, port: str, pem: str, *login: str) -> None:
    """Serve until killed."""
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(port)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(LAUNCH.format(path))
    factory.connect("media-configure", _watch)
    if login or pem != "-":
        auth = GstRtspServer.RTSPAuth()
        token = GstRtspServer.RTSPToken()
        token.set_string("media.factory.role", "user")
        if login:
            auth.add_basic(GstRtspServer.RTSPAuth.make_basic(*login), token)
        else:
            auth.set_default_token(token)
        if pem != "-":
            auth.set_tls_certificate(Gio.TlsCertificate.new_from_file(pem))
        server.set_auth(auth)
        permissions = GstRtspServer.RTSPPermissions()
        permissions.add_permission_for_role("user", "media.factory.access", True)
        permissions.add_permission_for_role("user", "media.factory.construct", True)
        factory.set_permissions(permissions)
    server.get_mount_points().add_factory("/live", factory)
    if not server.attach(None):
        sys.exit(f"port {port} is in use")
    _print(server.get_bound_port())
    GLib.MainLoop().run()


def _watch(_factory: object, media: GstRtspServer.RTSPMedia) -> None:
    media.connect("new-state", _print_when_playing)


def _print_when_playing(media: GstRtspServer.RTSPMedia, state: int) -> None:
    if state == int(Gst.State.PLAYING):
        GLib.timeout_add(_POLL_MILLISECONDS, _print_base_time, media)


def _print_base_time(media: GstRtspServer.RTSPMedia) -> bool:
    """Print the start of the playback once known; return whether to call this again."""
    base_ns = media.get_element().get_base_time()
    if base_ns:
        _print(base_ns)
    return not base_ns


def _print(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
