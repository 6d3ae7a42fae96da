<?php

declare(strict_types=1);

return [
    'use' => function (): void {
        $key = openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']);
        $public = openssl_pkey_get_public(openssl_pkey_get_details($key)['key']);
        openssl_sign('text', $signature, $key, OPENSSL_ALGO_SHA256);
        same(1, openssl_verify('text', $signature, $public, OPENSSL_ALGO_SHA256));
        $nonce = openssl_random_pseudo_bytes(12);
        $sealed = openssl_encrypt('text', 'aes-256-gcm', str_repeat('k', 32), OPENSSL_RAW_DATA, $nonce, $tag);
        same('text', openssl_decrypt($sealed, 'aes-256-gcm', str_repeat('k', 32), OPENSSL_RAW_DATA, $nonce, $tag));
        $request = openssl_csr_new(['commonName' => 'localhost'], $key);
        $certificate = openssl_csr_sign($request, null, $key, 1);
        same('localhost', openssl_x509_parse($certificate)['subject']['CN']);
        Kept::keep($key, $public, $request, $certificate);
    },
    // Leaves errors in the queue.
    'errors' => function (): void {
        same(false, openssl_error_string());
        same(false, @openssl_pkey_get_private('no key'));
    },
    // An encrypted connection that is open when the request ends, both ends in here.
    'tls' => function (): void {
        $key = openssl_pkey_new(['private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1']);
        $certificate = openssl_csr_sign(openssl_csr_new(['commonName' => 'localhost'], $key), null, $key, 1);
        openssl_x509_export($certificate, $text);
        openssl_pkey_export($key, $secret);
        file_put_contents(file_of_test('tls.pem'), $text . $secret);
        $ours = stream_context_create(['ssl' => ['local_cert' => file_of_test('tls.pem')]]);
        $theirs = stream_context_create(['ssl' => ['verify_peer' => false, 'verify_peer_name' => false]]);
        $server = stream_socket_server('tcp://127.0.0.1:0', $number, $message, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, $ours);
        $client = stream_socket_client('tcp://' . stream_socket_get_name($server, false), context: $theirs);
        $accepted = stream_socket_accept($server);
        stream_set_blocking($client, false);
        stream_set_blocking($accepted, false);
        for ($here = $there = 0; $here === 0 || $there === 0;) {
            $there = $there ?: stream_socket_enable_crypto($client, true, STREAM_CRYPTO_METHOD_TLS_CLIENT);
            $here = $here ?: stream_socket_enable_crypto($accepted, true, STREAM_CRYPTO_METHOD_TLS_SERVER);
        }
        same([true, true], [$here, $there]);
        fwrite($accepted, "hello\n");
        stream_set_blocking($client, true);
        same("hello\n", fgets($client));
        Kept::keep($server, $client, $accepted);
    },
];
