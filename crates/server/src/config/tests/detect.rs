//! What a folder is taken for.

use super::*;

const RUNTIME_INDEX: &str = "<?php require_once dirname(__DIR__).'/vendor/autoload_runtime.php';";

fn symfony(installed: &str) -> Project {
    Project::new(&[
        ("config/bundles.php", ""),
        ("public/index.php", RUNTIME_INDEX),
        ("vendor/composer/installed.json", installed),
    ])
}

#[test]
fn symfony_with_a_runtime_of_7_4_is_resident() {
    let project = symfony(r#"{"packages": [{"name": "symfony/runtime", "version": "v7.4.1"}]}"#);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Resident, "public", Some("public/index.php"))
    );
    assert_eq!(
        reasons,
        [
            "found config/bundles.php: a Symfony application",
            "symfony/runtime v7.4.1 can stay resident: resident mode with public/index.php"
        ]
    );
}

#[test]
fn symfony_with_an_older_runtime_is_classic_and_told_how_to_become_resident() {
    let runtime = r#"{"name": "symfony/runtime", "version": "v6.4.3"}"#;
    let project = symfony(&format!("[{runtime}]"));
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Classic, "public", Some("public/index.php"))
    );
    assert_eq!(
        reasons[1],
        "symfony/runtime v6.4.3 does not stay resident by itself; pool.web.mode = \"resident\" boots the front controller as it is, or install hearth/hearth (php/README.md of Hearth) and set \
         APP_RUNTIME = 'Hearth\\Bridge\\Symfony\\Runtime' in [pool.web.env]"
    );
    assert_eq!(
        reasons[2],
        "classic mode; URLs that name no file go to public/index.php"
    );

    let (mode, _, script, reasons) = project.entry(&["pool.web.mode=resident"]);
    assert_eq!(
        (mode, script.as_deref()),
        (Mode::Resident, Some("public/index.php"))
    );
    assert_eq!(reasons, ["as set: resident mode; found public/index.php"]);

    let project = symfony(&format!(
        r#"[{runtime}, {{"name": "hearth/hearth", "version": "0.1.0"}}]"#
    ));
    let (mode, _, _, reasons) = project.entry(&[]);
    assert_eq!(mode, Mode::Classic);
    assert!(
        reasons[1].contains(" as it is, or set APP_RUNTIME = "),
        "{reasons:?}"
    );
}

#[test]
fn symfony_whose_loader_names_our_runtime_is_resident() {
    for (loader, text) in [
        (
            "vendor/autoload_runtime.php",
            r"<?php $class = $_ENV['APP_RUNTIME'] ?? 'Hearth\\Bridge\\Symfony\\Runtime';",
        ),
        (
            "autoload_runtime.php",
            r"<?php use Hearth\Bridge\Symfony\Runtime;",
        ),
    ] {
        let project = Project::new(&[
            ("config/bundles.php", ""),
            ("public/index.php", RUNTIME_INDEX),
            (loader, text),
        ]);
        let (mode, _, script, reasons) = project.entry(&[]);
        assert_eq!(
            (mode, script.as_deref()),
            (Mode::Resident, Some("public/index.php"))
        );
        assert_eq!(
            reasons[1],
            format!("{loader} names Hearth\\Bridge\\Symfony\\Runtime: resident mode with public/index.php")
        );
    }
}

#[test]
fn the_runtime_that_the_environment_names_goes_before_the_loader() {
    let runtime = r#"{"packages": [{"name": "symfony/runtime", "version": "v6.4.3"}]}"#;
    let ours = r"Hearth\Bridge\Symfony\Runtime";
    let set = |class: &str| format!("pool.web.env.APP_RUNTIME='{class}'");
    let project = symfony(runtime);
    let (mode, _, script, reasons) = project.entry(&[&set(ours)]);
    assert_eq!(
        (mode, script.as_deref()),
        (Mode::Resident, Some("public/index.php"))
    );
    assert_eq!(
        reasons[1],
        format!("APP_RUNTIME names {ours}: resident mode with public/index.php")
    );
    let (mode, _, _, reasons) = project.entry(&[&set(r"App\Runtime")]);
    assert_eq!(mode, Mode::Classic);
    assert!(
        reasons[1].starts_with(r"APP_RUNTIME names App\Runtime, of which"),
        "{reasons:?}"
    );

    let loader = r"<?php $runtime = $_SERVER['APP_RUNTIME'] ?? 'Hearth\\Bridge\\Symfony\\Runtime';";
    let project = Project::new(&[
        ("config/bundles.php", ""),
        ("public/index.php", RUNTIME_INDEX),
        ("vendor/autoload_runtime.php", loader),
        ("vendor/composer/installed.json", runtime),
    ]);
    assert_eq!(project.entry(&[]).0, Mode::Resident);
    let own = set(r"Symfony\Component\Runtime\SymfonyRuntime");
    assert_eq!(project.entry(&[&own]).0, Mode::Classic);
}

#[test]
fn the_runtime_of_composer_json_has_to_be_in_the_loader() {
    let of = |class: &str| {
        let json = format!(
            r#"{{"extra": {{"runtime": {{"class": "{}"}}}}}}"#,
            class.replace('\\', r"\\")
        );
        let project = Project::new(&[
            ("config/bundles.php", ""),
            ("composer.json", &json),
            ("public/index.php", RUNTIME_INDEX),
            (
                "vendor/composer/installed.json",
                r#"[{"name": "symfony/runtime", "version": "v7.4.1"}]"#,
            ),
        ]);
        project.entry(&[]).3[1].clone()
    };
    assert!(of(r"Hearth\Bridge\Symfony\Runtime").ends_with("run `composer dump-autoload`"));
    assert!(of(r"App\Runtime").starts_with(r"composer.json names App\Runtime, of which"));
}

#[test]
fn symfony_is_known_by_composer_and_its_version_by_installed_php() {
    let project = Project::new(&[
        (
            "composer.json",
            r#"{"require": {"symfony/framework-bundle": "7.*"}}"#,
        ),
        ("public/index.php", RUNTIME_INDEX),
        (
            "vendor/composer/installed.php",
            "<?php return array('versions' => array('symfony/runtime' => array(\n 'pretty_version' => 'v8.0.2',",
        ),
    ]);
    let (mode, _, _, reasons) = project.entry(&[]);
    assert_eq!(mode, Mode::Resident);
    assert_eq!(
        reasons[0],
        "found composer.json with symfony/framework-bundle: a Symfony application"
    );
}

#[test]
fn laravel_is_resident_with_the_worker_of_octane() {
    let project = Project::new(&[
        ("artisan", ""),
        ("public/index.php", ""),
        ("public/frankenphp-worker.php", ""),
    ]);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Resident, "public", Some("public/frankenphp-worker.php"))
    );
    assert_eq!(
        reasons,
        [
            "found artisan: a Laravel application",
            "found public/frankenphp-worker.php of Octane: resident mode with it"
        ]
    );

    let project = Project::new(&[("artisan", ""), ("public/index.php", "")]);
    let (mode, _, script, _) = project.entry(&[]);
    assert_eq!(
        (mode, script.as_deref()),
        (Mode::Classic, Some("public/index.php"))
    );
}

#[test]
fn wordpress_is_classic_with_its_index() {
    let project = Project::new(&[("wp-includes/version.php", ""), ("index.php", "")]);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Classic, "", Some("index.php"))
    );
    assert_eq!(
        reasons,
        [
            "found wp-includes/version.php: WordPress",
            "classic mode; URLs that name no file go to index.php"
        ]
    );
}

#[test]
fn a_worker_script_is_resident_whatever_stands_beside_it() {
    let worker = "<?php while (hearth_handle_request($f)) {}";
    let project = Project::new(&[("worker.php", worker), ("public/index.php", "")]);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Resident, "public", Some("worker.php"))
    );
    assert_eq!(
        reasons[1],
        "found worker.php, which calls hearth_handle_request(): resident mode with worker.php"
    );

    let project = Project::new(&[("worker.php", "<?php echo 1;"), ("public/index.php", "")]);
    assert_eq!(project.entry(&[]).0, Mode::Classic);
}

#[test]
fn plain_files_are_classic() {
    for (files, root, script) in [
        (
            &["public/index.php", "index.php"][..],
            "public",
            Some("public/index.php"),
        ),
        (&["index.php", "public/style.css"][..], "", Some("index.php")),
        (&["public/info.php"][..], "public", None),
        (&["info.php"][..], "", None),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|&name| (name, "")).collect();
        let (mode, found_root, found_script, _) = Project::new(&files).entry(&[]);
        assert_eq!(
            (mode, found_root.as_str(), found_script.as_deref()),
            (Mode::Classic, root, script)
        );
    }
}

#[test]
fn what_is_set_wins_over_what_is_found() {
    let worker = "<?php while (frankenphp_handle_request($f)) {}";
    let project = Project::new(&[("worker.php", worker), ("index.php", ""), ("site/index.php", "")]);
    assert_eq!(
        project.entry(&["pool.web.mode=classic"]).2.as_deref(),
        Some("index.php")
    );
    let (mode, root, script, reasons) = project.entry(&["pool.web.script=./index.php", "root=site"]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Classic, "site", Some("index.php"))
    );
    assert_eq!(
        reasons,
        [
            "as set: script index.php; it is no worker script: classic mode",
            "as set: document root site"
        ]
    );
    let (mode, _, script, _) = project.entry(&["pool.web.mode=resident"]);
    assert_eq!((mode, script.as_deref()), (Mode::Resident, Some("worker.php")));
    let (mode, _, script, _) = project.entry(&["pool.web.mode=classic", "root=site"]);
    assert_eq!((mode, script.as_deref()), (Mode::Classic, Some("site/index.php")));
}

#[test]
fn the_folder_that_is_published_is_found_by_its_name() {
    for (files, root) in [
        (&["web/index.php"][..], "web"),
        (&["pub/index.php", "index.php"][..], "pub"),
        (&["htdocs/index.php"][..], "htdocs"),
        (&["www/index.php"][..], "www"),
        (&["docroot/index.php"][..], "docroot"),
        (&["webroot/index.php"][..], "webroot"),
        (&["public_html/index.php"][..], "public_html"),
        (&["public/index.php", "web/index.php"][..], "public"),
        (&["public/style.css", "web/index.php"][..], "web"),
        // Only an entry script makes one of them the site.
        (&["web/style.css", "index.php"][..], ""),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|&name| (name, "")).collect();
        let (mode, found, script, _) = Project::new(&files).entry(&[]);
        let index = if root.is_empty() {
            "index.php".to_owned()
        } else {
            format!("{root}/index.php")
        };
        assert_eq!(
            (mode, found.as_str(), script),
            (Mode::Classic, root, Some(index)),
            "{files:?}"
        );
    }
}

#[test]
fn composer_json_names_the_folder_that_is_published() {
    let drupal = r#"{"extra": {"drupal-scaffold": {"locations": {"web-root": "./site/"}}}}"#;
    for (json, root) in [
        (drupal, "site"),
        (r#"{"extra": {"public-dir": "site"}}"#, "site"),
        (r#"{"extra": {"symfony-web-dir": "site/"}}"#, "site"),
        (r#"{"extra": {"typo3/cms": {"web-dir": "site"}}}"#, "site"),
        // The folder itself, none at all, and what lies elsewhere.
        (
            r#"{"extra": {"drupal-scaffold": {"locations": {"web-root": "./"}}}}"#,
            "web",
        ),
        (r#"{"extra": {"public-dir": "../site"}}"#, "web"),
        (r#"{"extra": {"public-dir": "none"}}"#, "web"),
        (r#"{"extra": []}"#, "web"),
    ] {
        let project = Project::new(&[
            ("composer.json", json),
            ("site/index.php", ""),
            ("web/index.php", ""),
        ]);
        let (_, found, script, _) = project.entry(&[]);
        assert_eq!(
            (found.as_str(), script),
            (root, Some(format!("{root}/index.php"))),
            "{json}"
        );
    }
}

#[test]
fn a_framework_is_known_whatever_its_public_folder_is_called() {
    let project = Project::new(&[
        ("config/bundles.php", ""),
        ("composer.json", r#"{"extra": {"public-dir": "htdocs"}}"#),
        ("htdocs/index.php", RUNTIME_INDEX),
        (
            "autoload_runtime.php",
            r"<?php use Hearth\Bridge\Symfony\Runtime;",
        ),
    ]);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Resident, "htdocs", Some("htdocs/index.php"))
    );
    assert!(
        reasons[1].ends_with("resident mode with htdocs/index.php"),
        "{reasons:?}"
    );
    let project = Project::new(&[
        ("artisan", ""),
        ("public_html/index.php", ""),
        ("public_html/frankenphp-worker.php", ""),
    ]);
    let (mode, root, _, _) = project.entry(&[]);
    assert_eq!((mode, root.as_str()), (Mode::Resident, "public_html"));
}

#[test]
fn the_folder_of_a_composer_project_is_not_published_for_lack_of_another() {
    let files = [("composer.json", "{}"), ("src/tool.php", ""), ("one.php", "")];
    let project = Project::new(&files);
    let error = project.errors(&[]);
    assert!(
        error.starts_with("DIR: found composer.json, but no index.php in DIR, public, web, pub,")
            && error.contains("set `root` to the folder that clients may see"),
        "{error}"
    );
    assert!(project.errors(&["pool.web.mode=classic"]).contains("set `root`"));
    // Who names one of the two knows.
    assert_eq!(project.entry(&["root=."]).1, "");
    let (_, _, script, _) = project.entry(&["pool.web.script=one.php"]);
    assert_eq!(script.as_deref(), Some("one.php"));
    let error = project.errors(&["root=.", "pool.other.dir=.", "pool.other.hosts=[\"a.b\"]"]);
    assert!(error.contains("set `pool.other.root`"), "{error}");
    let public = Project::new(&[("composer.json", "{}"), ("public/one.php", "")]);
    assert_eq!(public.entry(&[]).1, "public");
}
