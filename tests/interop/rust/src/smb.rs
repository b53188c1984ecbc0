//! The library smb-server as a program: `smb ADDRESS FOLDER` shares the folder as `data`, for the user of the environment.

use smb_server::{Access, LocalFsBackend, Share, SmbServer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(address), Some(folder)) = (words.next(), words.next()) else {
        return Err("usage: smb ADDRESS FOLDER".into());
    };
    let user = std::env::var("SMB_USER")?;
    let share = Share::new("data", LocalFsBackend::new(&folder)?).user(&user, Access::ReadWrite);
    let server = SmbServer::builder()
        .listen(address.parse()?)
        .user(&user, std::env::var("SMB_PASSWORD")?)
        .share(share)
        .build()?;
    server.bind().await?;
    server.serve().await?;
    Ok(())
}
