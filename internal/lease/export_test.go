package lease

// ClientFor lets tests reach the API server on a wire of their own, with the
// settings that ship.
var ClientFor = clientFor
