"""A real RTSP server, GStreamer's: `python3 rtsp_server.py FILE PORT PEM [USER PASSWORD]`.

Runs in the system's interpreter, where Debian installs GStreamer's bindings. Prints its port, then
serves the file at rtsp://127.0.0.1:PORT/live, in real time, from its start for every client; by TLS
with the key and certificate in the file PEM, unless that is "-".
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import Gio, GLib, Gst, GstRtspServer  # noqa: E402

LAUNCH = (
    "( filesrc location={} ! qtdemux ! h264parse ! rtph264pay name=pay0 pt=96 config-interval=-1 )"
)


def main(path, port, pem, *login):
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service(port)
    factory = GstRtspServer.RTSPMediaFactory()
    factory.set_launch(LAUNCH.format(path))
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
    sys.stdout.write(f"{server.get_bound_port()}\n")
    sys.stdout.flush()
    GLib.MainLoop().run()


main(*sys.argv[1:])
