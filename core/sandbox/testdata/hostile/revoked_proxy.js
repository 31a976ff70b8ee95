// expect: script_error
const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); throw proxy
