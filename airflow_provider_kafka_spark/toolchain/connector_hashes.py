"""SHA-256 of the jars of Spark's Kafka connector on Maven Central, for the versions of Spark that are tested."""

from __future__ import annotations

from collections.abc import Mapping

#: By Spark's version with that of Scala, and by the file's name.
CONNECTOR_HASHES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("3.5.7", "2.12"): {
        "commons-pool2-2.11.1.jar": "ea0505ee7515e58b1ac0e686e4d1a5d9f7d808e251a61bc371aa0595b9963f83",
        "jsr305-3.0.0.jar": "bec0b24dcb23f9670172724826584802b80ae6cbdaba03bdebdef9327b962f6a",
        "kafka-clients-3.4.1.jar": "9d0a9058c8ede79db6e54ae378ed16fe8d1bead2894635a4aa6aa0b7981668c6",
        "lz4-java-1.8.0.jar": "d74a3334fb35195009b338a951f918203d6bbca3d1d359033dc33edd1cadc9ef",
        "scala-library-2.12.18.jar": "e51e6636c003359e106bea4ad99def70e613c290190c8c84f10f9560dd5b00ae",
        "slf4j-api-2.0.7.jar": "5d6298b93a1905c32cda6478808ac14c2d4a47e91535e53c41f7feeb85d946f4",
        "snappy-java-1.1.10.5.jar": "0f3f1857ed33116583f480b4df5c0218836c47bfbc9c6221c0d73f356decf37b",
        "spark-sql-kafka-0-10_2.12-3.5.7.jar": "184f8bd4a3cd22299c49090d88b894f81fd7546b4ee64879519a0d76a685dbb8",
        "spark-tags_2.12-3.5.7.jar": "db5f4b99d69cbe3a098ec6c2e9e50ad1ebf2ba4ae182471ef40ebf37fe48315b",
        "spark-token-provider-kafka-0-10_2.12-3.5.7.jar": (
            "9701914db5c6d09628b58d2d2c1ccd2c9ea28f32f83dd6cb21f98b8237531ff4"
        ),
    },
    ("4.0.0", "2.13"): {
        "commons-pool2-2.12.0.jar": "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
        "jsr305-3.0.0.jar": "bec0b24dcb23f9670172724826584802b80ae6cbdaba03bdebdef9327b962f6a",
        "kafka-clients-3.9.0.jar": "15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18",
        "lz4-java-1.8.0.jar": "d74a3334fb35195009b338a951f918203d6bbca3d1d359033dc33edd1cadc9ef",
        "scala-library-2.13.16.jar": "1ebb2b6f9e4eb4022497c19b1e1e825019c08514f962aaac197145f88ed730f1",
        "scala-parallel-collections_2.13-1.2.0.jar": "4eae6e68cf44e9f709970355590ae981883edf6484608d747376a56cbb285432",
        "slf4j-api-2.0.16.jar": "a12578dde1ba00bd9b816d388a0b879928d00bab3c83c240f7013bf4196c579a",
        "snappy-java-1.1.10.7.jar": "4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36",
        "spark-sql-kafka-0-10_2.13-4.0.0.jar": "33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3",
        "spark-tags_2.13-4.0.0.jar": "dd54f5f1513b515ff79b29eb12755acd325a9ced65f506994a4b9dc513020f36",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar": (
            "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767"
        ),
    },
    ("4.2.0", "2.13"): {
        "commons-pool2-2.13.1.jar": "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
        "jsr305-3.0.0.jar": "bec0b24dcb23f9670172724826584802b80ae6cbdaba03bdebdef9327b962f6a",
        "kafka-clients-3.9.2.jar": "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
        "lz4-java-1.11.0.jar": "535c5578cab5dcd0a438e202df80091632b873c0370c25d9b1c1ad1d73577207",
        "scala-library-2.13.18.jar": "4e85d96ff7bc7dc627985523c3541b9917aaa08e956391380c42db21a2c4e5a0",
        "scala-parallel-collections_2.13-1.2.0.jar": "4eae6e68cf44e9f709970355590ae981883edf6484608d747376a56cbb285432",
        "slf4j-api-2.0.17.jar": "7b751d952061954d5abfed7181c1f645d336091b679891591d63329c622eb832",
        "snappy-java-1.1.10.8.jar": "50485d06037fea3d6e40c968386feeca6338cc9872e25549593ff3eb352cefcc",
        "spark-sql-kafka-0-10_2.13-4.2.0.jar": "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
        "spark-tags_2.13-4.2.0.jar": "496b66fcd75a892fce1f3c776729a006cdd3e5ce610a7d257735610b8bdc5339",
        "spark-token-provider-kafka-0-10_2.13-4.2.0.jar": (
            "641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c"
        ),
    },
}
